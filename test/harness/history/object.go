// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Version is an object as it was stored once, or its end.
type Version struct {
	Key
	UID types.UID `json:"uid"`
	RevisionRange
	// At is when it was observed or its writer got the response.
	At time.Time `json:"at,omitzero"`
	// Gone means that the object was deleted. Object, if any, is its last known state.
	Gone   bool                       `json:"gone,omitempty"`
	Object *unstructured.Unstructured `json:"object,omitempty"`
}

// Lifetime is one object from its first known version to its deletion.
type Lifetime struct {
	Key
	UID types.UID
	// Versions are in order; none of them is the end.
	Versions []Version
	// End is its deletion; nil if it existed at the end of the history.
	End *Version
}

// Index finds objects in a history.
type Index struct {
	lifetimes []*Lifetime
	byUID     map[types.UID]*Lifetime
}

// Index makes an Index of the versions.
func (h *History) Index() *Index {
	x := &Index{byUID: map[types.UID]*Lifetime{}}
	for _, v := range h.Versions {
		life := x.byUID[v.UID]
		if life == nil {
			life = &Lifetime{Key: v.Key, UID: v.UID}
			x.byUID[v.UID] = life
			x.lifetimes = append(x.lifetimes, life)
		}
		if v.Gone {
			life.End = &v
			continue
		}
		life.Versions = append(life.Versions, v)
	}
	return x
}

// Lifetimes returns all objects of a resource in the order of their first versions.
func (x *Index) Lifetimes(of Resource) []*Lifetime {
	var found []*Lifetime
	for _, life := range x.lifetimes {
		if life.Resource == of {
			found = append(found, life)
		}
	}
	return found
}

// All returns all objects of all resources.
func (x *Index) All() []*Lifetime { return x.lifetimes }

// Lifetime returns the object with this UID, or nil.
func (x *Index) Lifetime(uid types.UID) *Lifetime { return x.byUID[uid] }

// Created returns the object that a request created, or else nil. Without its UID, it is the last one of its name.
func (x *Index) Created(r Request) *Lifetime {
	switch {
	case !r.Made:
		return nil
	case r.UID != "":
		return x.byUID[r.UID]
	}
	var last *Lifetime
	for _, life := range x.lifetimes {
		if life.Key == r.Key {
			last = life
		}
	}
	return last
}

// Identity is the object with its UID.
func (l *Lifetime) Identity() string { return fmt.Sprintf("%s (UID %s)", l.Key, l.UID) }

// Last returns the last version with an object; nil if none was recorded.
func (l *Lifetime) Last() *Version {
	if len(l.Versions) == 0 {
		return nil
	}
	return &l.Versions[len(l.Versions)-1]
}

// Terminating returns the first version with a deletion timestamp, or nil.
func (l *Lifetime) Terminating() *Version {
	for i := range l.Versions {
		if l.Versions[i].Object.GetDeletionTimestamp() != nil {
			return &l.Versions[i]
		}
	}
	return nil
}
