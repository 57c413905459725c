DROP TABLE tenet_total;
