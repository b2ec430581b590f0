// Package proof proves the gate, as program: what is planted in testdata/planted is
// stopped, each by the rows that its file names and by no others, and a checkout that
// is compared with itself is not. `make gate-proof` runs it; without it only what is
// soon done is tested.
package proof
