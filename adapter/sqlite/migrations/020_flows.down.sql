-- Jobs that wait for needs keep waiting: cancel or retry them.
DROP TABLE tenet_flow_node;
DROP TABLE tenet_flow;
ALTER TABLE tenet_job DROP COLUMN needed;
