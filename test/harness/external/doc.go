// Package external has the systems outside the cluster that an operator may use. For
// a scenario it starts them, injects faults, changes them as another client, and lists
// what they contain.
//
// S3 is a real S3 server behind a fault.Proxy:
//
//	subject.External = external.S3(external.S3Options{OwnerTag: "example.com/owner"})
//
// Scenarios refer to it by {s3.endpoint}, its host and port {s3.address}, {s3.region},
// {s3.accessKey} and {s3.secretKey}, and change it by steps:
//
//   - external: {put: "{bucket}"}    # creates a bucket, as another client
//   - external: {remove: "{bucket}"} # removes it; it has to be empty
//   - external: {fill: "{bucket}"}   # puts an object into it
//   - external: {empty: "{bucket}"}  # removes that object
package external
