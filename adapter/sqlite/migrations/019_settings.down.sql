DROP TABLE tenet_setting;
