// Package flakes is the check of the gate that a test which is new or changed passes
// not only once: it is run 20 times.
//
// A test is changed if its own text is, comments aside, or that of something it
// uses in the test files of its package: a helper, a fixture, what a container of
// specs does before each. What is only changed outside of test files changes no
// test.
package flakes
