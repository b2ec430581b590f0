// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// User is a user that the harness impersonates.
type User struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// Role is a ClusterRole that the user has in Namespace, such as edit. The harness
	// binds it before the user's first step. Empty: the user has what others give.
	Role      string `json:"role,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// Refusal is whether admission or authorization refuses a step.
type Refusal string

const (
	// MustRefuse requires a refusal: in YAML, refused: true.
	MustRefuse Refusal = "true"
	// MayRefuse accepts both outcomes: refused: may.
	MayRefuse Refusal = "may"
)

// UnmarshalJSON accepts true, and the words of the constants.
func (r *Refusal) UnmarshalJSON(text []byte) error {
	word := strings.Trim(string(text), `"`)
	if word != string(MustRefuse) && word != string(MayRefuse) {
		return fmt.Errorf("reading refused: %s is neither true nor may", text)
	}
	*r = Refusal(word)
	return nil
}

// Access is whether a user may do something, as a SubjectAccessReview answers it.
type Access struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	Verb   string   `json:"verb"`
	// Resource may have a group, as in deployments.apps.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Allowed is the answer that is expected.
	Allowed bool `json:"allowed"`
	// Within bounds the time until the response is the expected one. Zero: 10 s.
	Within metav1.Duration `json:"within,omitzero"`
}

// String is the question.
func (a Access) String() string {
	return fmt.Sprintf("%s may %s %s %s", a.User, a.Verb, a.Resource, strings.Trim(a.Namespace+"/"+a.Name, "/"))
}

func (a Access) validate() error {
	if a.User == "" || a.Verb == "" || a.Resource == "" {
		return errors.New("may needs a user, a verb and a resource")
	}
	return nil
}

// User returns the user of this name; false if the scenario has none.
func (s Scenario) User(name string) (User, bool) {
	i := slices.IndexFunc(s.Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return User{}, false
	}
	return s.Users[i], true
}

func (s Scenario) validateUsers() error {
	var errs []error
	for i, u := range s.Users {
		if u.Name == "" || (u.Role == "") != (u.Namespace == "") {
			errs = append(errs, fmt.Errorf("user %d %q: it needs a name, and a role together with a namespace", i+1, u.Name))
		}
	}
	return errors.Join(errs...)
}

func (s Scenario) validateUserOf(step Step) error {
	if step.As == "" {
		return nil
	}
	if !step.isWrite() && step.Attack == nil {
		return errors.New("as is for apply, patch, scale, delete and attack; what is outside the cluster knows no users")
	}
	if _, known := s.User(step.As); !known {
		return fmt.Errorf("no user is called %q", step.As)
	}
	return nil
}
