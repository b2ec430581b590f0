// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// File is a subject as it is written down. Paths are relative to the file's folder.
type File struct {
	// Name is the operator's name in messages and folders.
	Name string `json:"name"`
	// Build builds the binary. If left out, the binary has to exist.
	Build *Build `json:"build,omitempty"`
	// Binary is the program that a replica runs.
	Binary string `json:"binary"`
	// WorkingDir is the folder in which the program runs, as the WORKDIR of its image. If left
	// out, it is / for isolated replicas, and otherwise the folder in which prove runs.
	WorkingDir string `json:"workingDir,omitempty"`
	// Manifests is the whole installation: a kustomize folder, a YAML file, a folder of YAML
	// files, or a Helm chart.
	Manifests string `json:"manifests"`
	// Deployment names the one Deployment to run, if there are several.
	Deployment string `json:"deployment,omitempty"`
	// Helm configures the release, if the manifests are a chart.
	Helm *Helm `json:"helm,omitempty"`
	// Args follow the arguments of the Deployment. {probe}, {metrics} and {webhook} are ports of
	// the replica, and {namespace} is the Deployment's namespace.
	Args []string `json:"args,omitempty"`
	// ReleaseLease: the prover releases the Lease of a killed process. Set it if no argument
	// shortens the Lease.
	ReleaseLease bool `json:"releaseLease,omitempty"`
	// Previous is the program of an older version, from which the fault upgrade starts. If left
	// out, the fault replaces the program by the same one.
	Previous string `json:"previous,omitempty"`
	// Env is added to the environment of each replica. {namespace} is as in args.
	Env map[string]string `json:"env,omitempty"`
	// Isolated runs each replica like a Pod, with its own ports and volumes, where the machine allows
	// it. If left out, they are isolated unless there is an external system.
	Isolated *bool `json:"isolated,omitempty"`
	// Replicas is the number of replicas, by default 2.
	Replicas int `json:"replicas,omitempty"`
	// CRDs are files and folders of CRDs that the manifests do not contain, such as those of
	// another operator.
	CRDs []string `json:"crds,omitempty"`
	// External lists the external systems of the operator.
	External *ExternalSpec `json:"external,omitempty"`
	// Node creates Pods of Deployments, StatefulSets, DaemonSets and Jobs. They run nothing, and
	// become Ready, or succeed, after a moment. If left out, there are no such Pods.
	Node *NodeSpec `json:"node,omitempty"`
	// Contract is the contract by which the operator is judged. By default, users is the
	// Deployment's ServiceAccount, and the Lease is in the Deployment's namespace.
	Contract invariant.Contract `json:"contract"`
	// Watched are resources to record besides those of the contract. end-state and
	// single-lifecycle judge their objects, and preconditions the operator's writes to them.
	Watched []history.Resource `json:"watched,omitempty"`
	// Except are invariants that the operator may break, each with a reason. They are reported.
	Except []invariant.Exception `json:"except,omitempty"`
	// Scenarios are files, or folders with files *.yaml.
	Scenarios []string `json:"scenarios"`

	dir string
}

// Build is how `go build` makes the binary.
type Build struct {
	// Dir is the folder of the build. If left out, it is the folder of subject.yaml.
	Dir string `json:"dir,omitempty"`
	// Package is the package to build, as in ./cmd.
	Package string `json:"package"`
	// Flags are flags of go build, such as -tags=netgo.
	Flags []string `json:"flags,omitempty"`
}

// ExternalSpec has the external systems that an operator uses.
type ExternalSpec struct {
	// S3 starts an S3 server, whose placeholders scenarios use.
	S3 *S3Spec `json:"s3,omitempty"`
}

// S3Spec configures an operator's use of buckets.
type S3Spec struct {
	// OwnerTag is the tag in which a bucket has the UID of its object. If left out, the operator
	// creates no buckets.
	OwnerTag string `json:"ownerTag,omitempty"`
}

// NodeSpec configures the Pods.
type NodeSpec struct {
	// Jobs maps the image of a Job's first container to its outcome: fails, or runs for ever.
	Jobs map[string]env.JobEnd `json:"jobs,omitempty"`
	// Controllers of kube-controller-manager run beside the operator. The list replaces the default
	// list, which includes the controllers that create Pods.
	Controllers []string `json:"controllers,omitempty"`
}

// Read reads a file. Unknown fields are an error.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the subject: %w", err)
	}
	f := &File{}
	if err := yaml.UnmarshalStrict(text, f); err != nil {
		return nil, fmt.Errorf("reading the subject %s: %w", path, err)
	}
	if f.dir, err = filepath.Abs(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("reading the subject %s: %w", path, err)
	}
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("reading the subject %s: %w", path, err)
	}
	return f, nil
}

// CheckPaths finds manifests, CRDs and scenarios that are missing or unreadable. It starts no program.
func (f *File) CheckPaths() error {
	for _, p := range append([]string{f.Manifests}, f.CRDs...) {
		if _, err := os.Stat(f.path(p)); err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
	}
	_, err := f.scenarios()
	return err
}

// NeedsHelm reports whether the manifests are a chart.
func (f *File) NeedsHelm() bool { return env.IsChart(f.path(f.Manifests)) }

// NeedsS3 reports whether the operator uses an S3 server.
func (f *File) NeedsS3() bool { return f.External != nil && f.External.S3 != nil }

// Validate finds what is missing or cannot be meant, all of it at once.
func (f *File) Validate() error {
	var errs []error
	need := func(there bool, format string, args ...any) {
		if !there {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(f.Name != "", "name: say what the operator is called")
	need(f.Binary != "", "binary: name the program that a replica runs, or with build the one that is made")
	need(f.Build == nil || f.Build.Package != "", "build.package: name the Go package to build, such as ./cmd")
	need(f.Manifests != "", "manifests: name the kustomize folder, YAML files or chart that the operator is installed from, such as config/default")
	errs = append(errs, f.checkManifests())
	need(f.Replicas >= 0, "replicas: %d cannot run; leave it out for 2", f.Replicas)
	need(f.Contract.Lease.Name != "",
		"contract.lease.name: name the Lease that the leader holds; with controller-runtime it is LeaderElectionID")
	need(len(f.Contract.Kinds) > 0, "contract.kinds: name the kinds of object that the operator reconciles")
	need(len(f.Contract.Watched) == 0, "contract.watched: list the resources in watched, beside contract")
	need(len(f.Contract.Except) == 0, "contract.except: list the exceptions in except, beside contract")
	need(len(f.Scenarios) > 0, "scenarios: name files or folders with what users do")
	for i, k := range f.Contract.Kinds {
		need(k.Resource.Resource != "", "contract.kinds[%d].resource: say which, in the plural as in URLs", i)
		for j, c := range k.Children {
			if err := c.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("contract.kinds[%d].children[%d].%w", i, j, err))
			}
		}
	}
	need(f.External == nil || f.External.S3 != nil, "external: say which system; there is s3")
	if f.Node != nil {
		for image, end := range f.Node.Jobs {
			need(end == env.JobFails || end == env.JobRuns, "node.jobs[%s]: %q is neither %s nor %s", image, end,
				env.JobFails, env.JobRuns)
		}
	}
	errs = append(errs, f.checkExceptions()...)
	errs = append(errs, checkPlaceholders(f.Args, f.Env)...)
	return errors.Join(errs...)
}

// isolates reports whether replicas run like Pods.
func (f *File) isolates() bool {
	if f.Isolated != nil {
		return *f.Isolated
	}
	return f.External == nil
}

// checkExceptions rejects exceptions that no report could explain.
func (f *File) checkExceptions() []error {
	var errs []error
	for i, e := range f.Except {
		if err := checkInvariant(e.Invariant); err != nil {
			errs = append(errs, fmt.Errorf("except[%d].invariant: %w", i, err))
		}
		if strings.TrimSpace(e.Reason) == "" {
			errs = append(errs, fmt.Errorf("except[%d].reason: say why %s may be broken; each report quotes it", i, e.Invariant))
		}
		if slices.ContainsFunc(f.Except[:i], func(o invariant.Exception) bool { return o.Invariant == e.Invariant }) {
			errs = append(errs, fmt.Errorf("except[%d]: there is another one for %s", i, e.Invariant))
		}
	}
	return errs
}

// path makes one of the file's paths absolute.
func (f *File) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.dir, p)
}

// scenarios reads all of them, by name of file within each folder.
func (f *File) scenarios() ([]scenario.Scenario, error) {
	var all []scenario.Scenario
	for _, p := range f.Scenarios {
		files, err := yamlFiles(f.path(p))
		if err != nil {
			return nil, fmt.Errorf("scenarios: %w", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("scenarios: %w", err)
			}
			s, err := scenario.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("scenarios: %s: %w", file, err)
			}
			if slices.ContainsFunc(all, func(o scenario.Scenario) bool { return o.Name == s.Name }) {
				return nil, fmt.Errorf("scenarios: %s: there is another scenario called %q; a plan would be one of both",
					file, s.Name)
			}
			if err := errors.Join(checkInvariants(s), run.CheckFaults(s)); err != nil {
				return nil, fmt.Errorf("scenarios: %s: %w", file, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// checkInvariants rejects unknown invariants, and a scenario without any, which would always hold.
func checkInvariants(s scenario.Scenario) error {
	if len(s.Invariants) == 0 {
		return errors.New("invariants: name the invariants that have to be judged after each run, such as [end-state, convergence, single-writer]")
	}
	for _, id := range s.Invariants {
		if err := checkInvariant(id); err != nil {
			return fmt.Errorf("invariants: %w", err)
		}
	}
	return nil
}

// checkInvariant rejects the name of an unknown invariant.
func checkInvariant(id string) error {
	var ids []string
	for _, i := range invariant.All() {
		ids = append(ids, i.Name)
	}
	if !slices.Contains(ids, id) {
		return fmt.Errorf("no invariant is called %q; there are %q", id, ids)
	}
	return nil
}

// yamlFiles are those of a folder, or the file itself.
func yamlFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder %s has no *.yaml", path)
	}
	return files, nil
}
