// Package policyimport turns the retry configuration of other systems into policies: gRPC service configs ([GRPC]) and
// Envoy's routes and clusters ([Envoy]), in JSON or YAML.
//
// # The model
//
// The input is read field by field. What a policy can say is converted; whatever has no equivalent, or only a near one,
// is named in the report with its path. Names may be spelt as in either form of protobuf's JSON, retry_policy or
// retryPolicy. Values of a wrong type or outside the range that their own system allows are errors, all of them at once;
// values that Tenet's limits do not allow are brought into range and reported.
//
// Everything here is a pure function.
package policyimport
