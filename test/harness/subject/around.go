// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"leasehold.dev/test/harness/env"
)

// ExternalSpec has the external systems that an operator uses.
type ExternalSpec struct {
	// S3 is an S3 server, which scenarios refer to by placeholders.
	S3 *S3Spec `json:"s3,omitempty"`
}

// S3Spec configures an operator's use of buckets.
type S3Spec struct {
	// OwnerTag is the tag of a bucket with the UID of the object that the operator created it for.
	// Empty means that it creates none.
	OwnerTag string `json:"ownerTag,omitempty"`
}

// NodeSpec configures the Pods that run.
type NodeSpec struct {
	// Images are programs that stand in for images, by the images' names. Pods of other images run
	// nothing: they become Ready after a moment, and those of Jobs succeed.
	Images map[string]ProgramSpec `json:"images,omitempty"`
	// Jobs has the outcome of Pods of Jobs that do not succeed, by the image of their first
	// container: fails, or runs for ever.
	Jobs map[string]env.JobEnd `json:"jobs,omitempty"`
}

// ProgramSpec stands in for an image.
type ProgramSpec struct {
	Build  *Build `json:"build,omitempty"`
	Binary string `json:"binary"`
	// Args have {port}, a port of 127.0.0.1 to serve on, and the Pod's mount paths of volumes, as
	// in {/data}, for the folders that replace them.
	Args []string `json:"args,omitempty"`
}

// buildPrograms builds the node's programs. It rebuilds existing ones only if again is true.
func (f *File) buildPrograms(ctx context.Context, again bool) error {
	if f.Node == nil {
		return nil
	}
	for _, image := range slices.Sorted(maps.Keys(f.Node.Images)) {
		p := f.Node.Images[image]
		_, err := os.Stat(f.path(p.Binary))
		if p.Build != nil && (again || err != nil) {
			if err := p.Build.run(ctx, f, f.path(p.Binary)); err != nil {
				return fmt.Errorf("node.images[%s]: %w", image, err)
			}
		}
	}
	return nil
}

func (f *File) nodeOptions() *env.NodeOptions {
	o := &env.NodeOptions{Images: map[string]env.Program{}, StandIn: true, Jobs: f.Node.Jobs}
	for image, p := range f.Node.Images {
		o.Images[image] = env.Program{Binary: f.path(p.Binary), Args: p.arguments}
	}
	return o
}

func (p ProgramSpec) arguments(port int, volumes map[string]string) []string {
	pairs := []string{"{port}", strconv.Itoa(port)}
	for path, folder := range volumes {
		pairs = append(pairs, "{"+path+"}", folder)
	}
	filled := strings.NewReplacer(pairs...)
	var args []string
	for _, arg := range p.Args {
		args = append(args, filled.Replace(arg))
	}
	return args
}
