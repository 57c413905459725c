DROP TABLE tenet_audit;
