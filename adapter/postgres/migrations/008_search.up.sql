-- What filters compare: a string, number or boolean of at most 512 bytes, which is as long as a filter's values may be. NULL
-- where there is none, also where a payload is not JSON, so that an index on them refuses no job. PostgreSQL has no NUL
-- character; in the text of a JSON document, its escape is replaced before the document is read.
CREATE FUNCTION {{schema}}.payload_field(payload bytea, path text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    value json;
    name  text;
BEGIN
    value := replace(convert_from(payload, 'UTF8'), '\u0000', '\ufffd')::json;
    FOREACH name IN ARRAY path LOOP
        value := value -> name;
    END LOOP;
    IF json_typeof(value) IN ('string', 'number', 'boolean') AND octet_length(value #>> '{}') <= 512 THEN
        RETURN value #>> '{}';
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE FUNCTION {{schema}}.meta_field(meta json, name text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    value text;
BEGIN
    value := replace(meta::text, '\u0000', '\ufffd')::json ->> name;
    IF octet_length(value) <= 512 THEN
        RETURN value;
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
