-- With the indexes on them.
DROP FUNCTION {{schema}}.payload_field CASCADE;
DROP FUNCTION {{schema}}.meta_field CASCADE;
