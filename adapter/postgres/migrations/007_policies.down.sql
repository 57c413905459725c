DROP TABLE {{schema}}.policy_setting;
DROP TABLE {{schema}}.policy_token;
DROP TABLE {{schema}}.policy_leader;
DROP TABLE {{schema}}.policy_evidence;
DROP TABLE {{schema}}.policy_client;
DROP TABLE {{schema}}.policy_change;
DROP TABLE {{schema}}.policy_revision;
DROP TABLE {{schema}}.policy_document;
