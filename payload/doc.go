// Package payload compresses and encrypts the payloads and outputs of jobs on their way to a store.
//
// # The model
//
// A [Codec] stands between a client or worker and its store; the store keeps JSON as before, and knows no keys:
//
//	client ──Encode──► {"$tenet_payload":1,"key":"k2","zip":"zstd","size":8431,"data":"…"} ──► store ──Decode──► handler
//
// The queue's codec in the policy document says what is done: texts above compress_above bytes are compressed with zstd where that makes
// them shorter, and all texts are encrypted if encrypt is set. Keys come from code or from a file ([ReadKeys]), never from a document. The
// first key encrypts, and all of them decrypt, so that a key is replaced by putting a new one in front of it.
//
// # What is protected
//
// Encryption is AES-256-GCM with a random nonce. It authenticates, besides the text, the version, the key's ID, the compression, the size,
// and what the text belongs to: the payload or the output of a type of job. An encrypted payload that was changed, or moved to another
// type, is not decoded. Metadata, types, queues, unique keys and error messages are not encrypted, and the size of a text shows, as
// does that of its compressed form. A writer of the store can remove jobs, and can put an old payload in the place of another one of
// the same type. One key may encrypt 2³² texts, the bound of random nonces (NIST SP 800-38D, section 8.3).
package payload
