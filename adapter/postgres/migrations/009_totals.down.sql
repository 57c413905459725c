DROP TABLE {{schema}}.total;
DROP TABLE {{schema}}.total_change;
