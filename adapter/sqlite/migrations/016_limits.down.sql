DROP TABLE tenet_limit;
