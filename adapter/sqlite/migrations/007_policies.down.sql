DROP TABLE tenet_policy_setting;
DROP TABLE tenet_policy_token;
DROP TABLE tenet_policy_leader;
DROP TABLE tenet_policy_evidence;
DROP TABLE tenet_policy_client;
DROP TABLE tenet_policy_change;
DROP TABLE tenet_policy_revision;
DROP TABLE tenet_policy_document;
