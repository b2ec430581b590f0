// Package compatibility is the check of the gate that what a cluster has stays
// good: the schemas of the kinds, and objects that are stored under them.
//
// The schemas are compared field by field: whatever a client or a stored object
// may rely on at base has to be there at head. What no comparison can foresee is
// tried: objects stored under the CustomResourceDefinitions of base are read,
// written and deleted under those of head, on a real API server.
package compatibility

// prefix is how the ID of every row begins.
const prefix = "compatibility/"
