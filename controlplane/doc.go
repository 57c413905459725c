// Package controlplane provides policies from outside the code that uses them: from a document on disk, an HTTP control
// plane or a store. Policies can change while programs run, and a failing control plane never fails a call.
//
// # The model
//
//	NewStatic          policies given in code                 never changes
//	NewFile            a document on disk                     reloaded when its content changes
//	NewRemoteDocument  GET {URL}/policies                     one document, polled with If-None-Match
//	NewRemote          GET {URL}/policies/{namespace}/{name}  one policy per key, fetched when first asked for
//	NewStored          a [DocumentStore]                      one document, watched or polled
//	NewServer          a document of a Tenet server           streamed, signed, rolled out in steps
//
// Each is a policy.Provider, meant to be shared and safe for concurrent use, and returns compiled policies, which must not
// be changed. Those that hold a whole document are also a policy.Versioned and a policy.SetProvider, so that executors ask
// them once per version and build the document's budgets. [NewRemote] does not use documents: budgets that its policies
// name must be registered in code. It returns the same pointer for a key until the key's policy changes.
//
// # When the source fails
//
// The last known good policies stay in force. They are kept in memory and, given a CachePath, on disk, so that they
// survive a restart. Callers get:
//
//	source                      policy                       error
//	answers                     Meta.Source file or remote   nil
//	File: broken or missing     as before, Source file       nil; see Status and OnError
//	others: no answer           last known good, Source lkg  policy.ErrProviderUnavailable
//	others: unusable answer     last known good, Source lkg  policy.ErrPolicyFetchFailed
//	Remote: 404                 none                         policy.ErrPolicyNotFound
//	nothing was ever known      none                         as above
//
// An executor in its default mode takes the policy that came with an error, or else the built-in default, and goes on.
// Until the first answer after a restart, policies kept on disk count as last known good too.
//
// A call waits only for a key that has neither a policy nor an error yet, at most RemoteOptions.Timeout, and not at all
// while the control plane is known to be down. All other refreshes happen in the background.
//
// Each distinct fault is logged and passed to OnError once, and again only after the source has worked in between.
package controlplane
