// Package explore derives changes of an object's spec from its CRD schema, makes them, and checks
// what an operator makes of them:
//
//   - differential: changing an object to a spec leads to the state to which creating it with that
//     spec leads;
//   - restore: changing it back restores the state;
//   - rejected: a change that the API server rejects changes nothing, and one that violates the
//     schema is rejected;
//   - corrected: correcting the spec ends an error state.
//
// Generate lists the changes and Differences compares two states; both are pure. An Explorer runs
// sequences of changes with a System and shrinks its findings. Program prove has the System with a
// real control plane.
//
// The oracles are those of Acto (Gu et al., SOSP 2023).
package explore
