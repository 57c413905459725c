// Package policyimport turns the retry configuration of other systems into policies: gRPC service configs ([GRPC]) and
// Envoy's routes and clusters ([Envoy]), in JSON or YAML.
//
// # The model
//
// The input is read field by field. Fields that a policy can express are converted. The report names every other field with
// its path and says whether it was approximated or left out. Names can be spelt in both ways of protobuf's JSON,
// retry_policy and retryPolicy. Values of a wrong type, or outside the range that their own system allows, are errors, and all
// errors are reported at once. Values outside Tenet's limits are brought into range and reported.
//
// All functions are pure.
package policyimport
