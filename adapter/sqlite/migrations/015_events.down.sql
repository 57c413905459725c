DROP TABLE tenet_watch;
DROP TABLE tenet_event;
