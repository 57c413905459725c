// Package controlplane finds policies outside the code that uses them: in a document on disk, behind an HTTP control
// plane, in a store. Policies change while everything runs, and a control plane that fails never fails a call.
//
// # The model
//
//	NewStatic          policies given in code                 never changes
//	NewFile            a document on disk                     reloaded when its content changes
//	NewRemoteDocument  GET {URL}/policies                     one document, polled with If-None-Match
//	NewRemote          GET {URL}/policies/{namespace}/{name}  one policy per key, fetched when first asked for
//	NewStored          a [DocumentStore]                      one document, watched or polled
//
// All of them are a policy.Provider, made to be shared, safe for concurrent use, and hand out compiled policies that
// nobody may change. Those that hold a whole document are also a policy.Versioned and a policy.SetProvider, so that
// executors ask them once per version and build the document's budgets. [NewRemote] knows no documents: budgets that its
// policies name must be registered in code, and a key's pointer stays the same for as long as its policy does.
//
// # When the source fails
//
// The last known good policies stay in force. They are kept in memory and, given a CachePath, on disk, so that they
// survive a restart. What the caller sees:
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
// Until the first answer after a restart, what was kept on disk counts as last known good too.
//
// Only a call that needs a key about which nothing at all is known waits, at most RemoteOptions.Timeout; while the
// control plane is known to be down, not even that one does. Everything else is refreshed in the background.
//
// Each distinct fault is logged and passed to OnError once, and again only after things have worked in between.
package controlplane
