DROP TABLE tenet_leader;
DROP TABLE tenet_queue;
DROP TABLE tenet_unique;
DROP TABLE tenet_attempt;
DROP TABLE tenet_job;
