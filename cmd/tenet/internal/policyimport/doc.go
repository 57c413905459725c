// Package policyimport turns the retry configuration of other systems into policies: gRPC service configs ([GRPC]), Envoy's routes and
// clusters ([Envoy]), Istio's VirtualServices ([Istio]), manifests of the Gateway API ([GatewayAPI]), resilience4j in Spring Boot
// ([Resilience4j]), Dapr's Resiliency ([Dapr]) and the AWS SDKs' shared config file ([AWS]).
//
// # The model
//
// The input is read field by field. The report says of each field that was read whether it was converted exactly, approximated or
// lost. Names can be spelt in several ways, such as retry_policy, retryPolicy or retry-policy. Values of a wrong type, or outside the range that
// their own system allows, are errors, and all errors are reported at once. Values outside Tenet's limits are brought into range and
// count as approximated.
//
// All functions are pure.
package policyimport
