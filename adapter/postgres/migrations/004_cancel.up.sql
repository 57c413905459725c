-- cancel_requested now holds when the cancellation of a running job was requested. A request that is older than this change
-- gets the time of the claim. Tables are not written anew: dropping and adding columns changes the catalog only.

ALTER TABLE {{schema}}.ready ADD COLUMN cancel_requested_at timestamptz;
ALTER TABLE {{schema}}.ready DROP COLUMN cancel_requested;
ALTER TABLE {{schema}}.ready RENAME COLUMN cancel_requested_at TO cancel_requested;

ALTER TABLE {{schema}}.scheduled ADD COLUMN cancel_requested_at timestamptz;
ALTER TABLE {{schema}}.scheduled DROP COLUMN cancel_requested;
ALTER TABLE {{schema}}.scheduled RENAME COLUMN cancel_requested_at TO cancel_requested;

ALTER TABLE {{schema}}.running ADD COLUMN cancel_requested_at timestamptz;
UPDATE {{schema}}.running SET cancel_requested_at = coalesce(claimed_at, now()) WHERE cancel_requested;
ALTER TABLE {{schema}}.running DROP COLUMN cancel_requested;
ALTER TABLE {{schema}}.running RENAME COLUMN cancel_requested_at TO cancel_requested;

ALTER TABLE {{schema}}.done ADD COLUMN cancel_requested_at timestamptz;
UPDATE {{schema}}.done SET cancel_requested_at = coalesce(claimed_at, now()) WHERE cancel_requested;
ALTER TABLE {{schema}}.done DROP COLUMN cancel_requested;
ALTER TABLE {{schema}}.done RENAME COLUMN cancel_requested_at TO cancel_requested;
