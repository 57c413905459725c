DROP TABLE tenet_worker;
