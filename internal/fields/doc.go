// Package fields reads the struct tags of the policy types: the name that a field has in
// documents and the values that it accepts. The JSON codec, the strict check, the document parser and the JSON Schema
// all ask here, so that they cannot disagree.
//
// The tags are
//
//	json:"backoff_cap"       the field's name in documents
//	check:"min=1"            lowest accepted value (an absent field is not checked)
//	check:"min=0,max=1"      both bounds, inclusive
//	check:"positive"         greater than zero
//	check:"null"             null is accepted and means explicitly none
//	check:"reserved"         refused when set
package fields
