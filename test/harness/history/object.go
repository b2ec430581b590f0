package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Version is an object as it was stored once, or its end.
type Version struct {
	Key
	UID types.UID `json:"uid"`
	Span
	// At is when it was seen or its writer was answered.
	At time.Time `json:"at,omitzero"`
	// Gone: the object is not there any more. Object, if there is one, is the
	// last state that is known.
	Gone   bool                       `json:"gone,omitempty"`
	Object *unstructured.Unstructured `json:"object,omitempty"`
}

// Life is one object from its first version that is known to its end.
type Life struct {
	Key
	UID types.UID
	// Versions are in order; none of them is the end.
	Versions []Version
	// End is its deletion; nil if it was still there at the end of the history.
	End *Version
}

// Index finds objects in a history.
type Index struct {
	lives []*Life
	byUID map[types.UID]*Life
}

// Index makes an Index of the versions.
func (h *History) Index() *Index {
	x := &Index{byUID: map[types.UID]*Life{}}
	for _, v := range h.Versions {
		life := x.byUID[v.UID]
		if life == nil {
			life = &Life{Key: v.Key, UID: v.UID}
			x.byUID[v.UID] = life
			x.lives = append(x.lives, life)
		}
		if v.Gone {
			life.End = &v
			continue
		}
		life.Versions = append(life.Versions, v)
	}
	return x
}

// Lives returns all objects of a resource, in the order in which they are first known.
func (x *Index) Lives(of Resource) []*Life {
	var found []*Life
	for _, life := range x.lives {
		if life.Resource == of {
			found = append(found, life)
		}
	}
	return found
}

// All returns all objects of all resources.
func (x *Index) All() []*Life { return x.lives }

// Life returns the object with this UID; nil if it is not known.
func (x *Index) Life(uid types.UID) *Life { return x.byUID[uid] }

// Before returns the last version that is known to have been stored before
// something else; nil if there is none.
func (l *Life) Before(s Span) *Version {
	var last *Version
	for i := range l.Versions {
		if l.Versions[i].Before(s) {
			last = &l.Versions[i]
		}
	}
	return last
}

// Last returns the last version with an object; nil if none was recorded.
func (l *Life) Last() *Version {
	if len(l.Versions) == 0 {
		return nil
	}
	return &l.Versions[len(l.Versions)-1]
}

// Terminating returns the first version that is on its way out; nil if there is none.
func (l *Life) Terminating() *Version {
	for i := range l.Versions {
		if l.Versions[i].Object.GetDeletionTimestamp() != nil {
			return &l.Versions[i]
		}
	}
	return nil
}

// Controller returns the owner reference that says it controls the object.
func (v Version) Controller() *metav1.OwnerReference {
	if v.Object == nil {
		return nil
	}
	return metav1.GetControllerOf(v.Object)
}
