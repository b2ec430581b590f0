// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

var (
	absent = fakeService{}
	exists = fakeService{exists: true}
	owned  = fakeService{exists: true, ownerTag: "uid-b"}
	others = fakeService{exists: true, ownerTag: "x"}
)

// creations returns services with a bucket that the operator creates, or that exists already.
func creations() map[string]fakeService {
	// A bucket appears between the probe and the creation.
	raced := func(s fakeService, answers ...string) fakeService {
		s.late = true
		return withFailures(s, answers...)
	}
	const taken, ours = "409 BucketAlreadyExists", "409 BucketAlreadyOwnedByYou"
	return map[string]fakeService{
		"does not exist":          absent,
		"tags are ignored":        {tags: "ignores"},
		"tags are rejected":       {tags: "refuses"},
		"tags are not supported":  {tags: "lacks"},
		"exists, without tags":    {exists: true, tags: "lacks"},
		"creation is denied":      withFailures(absent, requestCreate, "403 AccessDenied"),
		"tagging is denied":       withFailures(fakeService{tags: "ignores"}, requestSetTag, "403 AccessDenied"),
		"the tags are unreadable": withFailures(absent, requestTags, "500 InternalError"),

		"another account's":                                           withFailures(absent, requestCreate, taken),
		"created meanwhile by this operator":                          raced(owned, requestCreate, ours),
		"created meanwhile by another":                                raced(others, requestCreate, ours),
		"created meanwhile by another, with a success response":       raced(others),
		"created meanwhile with another tag, with a success response": raced(fakeService{exists: true, otherTag: true}),
		"exists and owned":                                            owned,
		"exists with another owner":                                   others,
		"exists without an owner tag":                                 exists,
		"a failing service":                                           withFailures(absent, requestHead, "500 -"),
	}
}

// lackings returns scenarios without a usable Secret or ConfigMap.
func lackings() map[string]scenario {
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"},
		Data: map[string]string{"ca.crt": "x"}}
	return map[string]scenario{
		"no Secret":      {with: noSecret},
		"no ConfigMap":   {with: withCA},
		"no certificate": {with: withCA, objects: []client.Object{ca}},
		"no key":         {secret: func(s *corev1.Secret) { delete(s.Data, v1beta1.SecretKeySecretAccessKey) }},
		"a line break within the token": {secret: func(s *corev1.Secret) {
			s.Data[v1beta1.SecretKeySessionToken] = []byte(sentinel + "\nb")
		}},
	}
}

func noSecret(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "none" }

// removals returns scenarios of a terminating StorageBucket.
func removals() map[string]scenario {
	all := map[string]scenario{
		"an empty bucket":          {with: removable, service: owned},
		"none":                     {with: removable, service: absent},
		"owned by another":         {with: removable, service: others},
		"one without an owner tag": {with: removable, service: exists},
		"one that is not empty":    {with: removable, service: withFailures(owned, "DELETE", "409 BucketNotEmpty")},
		"a failing service":        {with: removable, service: withFailures(owned, "DELETE", "503 SlowDown")},
		"a failing service, under two leaders": {with: removable, service: withFailures(owned, "DELETE", "500 -"),
			reconciles: 4, before: map[int]change{1: (*fixture).changeLeader}},
		"without tags": {with: removable, service: fakeService{exists: true, tags: "lacks"}},
		"no creation was ever intended": {service: owned, with: func(b *v1beta1.StorageBucket) {
			removable(b)
			b.Status.Provisioning = ""
		}},
		"possibly created, under Retain": {service: owned, with: func(b *v1beta1.StorageBucket) {
			removable(b)
			b.Spec.DeletionPolicy, b.Status.Provisioning = v1beta1.BucketRetain, v1beta1.BucketIntended
		}},
	}
	for name, s := range lackings() {
		if s.with != nil {
			s.with = both(s.with, removable)
			all[name] = s
		}
	}
	return all
}

func annotated(key, value string) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, value)
	}
}

func both(first, second func(*v1beta1.StorageBucket)) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		first(b)
		second(b)
	}
}

// courses returns scenarios of an observed bucket over several probes.
func courses() map[string]scenario {
	fails := func(answer string) change {
		return func(w *fixture) { w.service = withFailures(exists, requestHead, answer) }
	}
	recovers := func(w *fixture) { w.service = exists }
	rotatesSecret := func(w *fixture) {
		s := credentials()
		s.Data[v1beta1.SecretKeySessionToken] = []byte(sentinel + "\n")
		w.must(w.stored.Update(w.t.Context(), s))
	}
	deletesSecret := func(w *fixture) { w.must(w.stored.Delete(w.t.Context(), credentials())) }
	createsSecret := func(w *fixture) { w.must(w.stored.Create(w.t.Context(), credentials())) }
	pauses := func(w *fixture) { w.edit(annotated(v1beta1.AnnotationPaused, "true")) }
	resumes := func(w *fixture) { w.edit(annotated(v1beta1.AnnotationPaused, "false")) }
	requests := func(value string) change {
		return func(w *fixture) { w.edit(annotated(v1beta1.AnnotationRequestedAt, value)) }
	}
	return map[string]scenario{
		"paused and resumed": {with: both(manage, every(3600)), reconciles: 4,
			before: map[int]change{0: pauses, 2: resumes}},
		"paused while it is deleted": {with: removable, removed: true, reconciles: 4,
			before: map[int]change{0: pauses, 2: resumes}},
		"requested twice by one value, then by another": {with: every(3600), reconciles: 4,
			before: map[int]change{1: requests("a"), 3: requests(strings.Repeat("b", 200))}},
		"failures between successes": {reconciles: 8,
			before: map[int]change{1: fails("500 -"), 5: fails("503 -"), 7: recovers}},
		"failures of two leaders": {reconciles: 6, before: map[int]change{
			1: fails("500 -"), 2: (*fixture).changeLeader}},
		"deleted": {before: map[int]change{1: (*fixture).delete}},
		"another Secret, then none": {reconciles: 3,
			before: map[int]change{1: rotatesSecret, 2: deletesSecret}},
		"a Secret that comes later, for the next leader": {with: every(86400), reconciles: 4, before: map[int]change{
			0: deletesSecret, 1: func(w *fixture) {
				createsSecret(w)
				w.changeLeader()
			}}},
	}
}

// scenarios returns the scenarios of TestReconcileGolden.
func scenarios() map[string]scenario {
	all := map[string]scenario{
		"forbidden": {forbidden: true},
		// The second reconcile, before the next probe is due, reports nothing again.
		"manage: does not exist, with a period of an hour": {with: both(manage, every(3600))},
		"manage: was created before, and does not exist": {with: both(manage, func(b *v1beta1.StorageBucket) {
			b.Status.Provisioning = v1beta1.BucketCreated
		})},
		"remove: its namespace is gone": {with: removable, service: withFailures(owned, "DELETE", "500 -"), removed: true,
			reconciles: 3, before: map[int]change{0: func(w *fixture) {
				w.must(w.stored.Delete(w.t.Context(), team()))
			}}},
	}
	for name, s := range creations() {
		all["manage: "+name] = scenario{with: manage, service: s}
	}
	for name, s := range map[string]fakeService{"does not exist": absent, "exists": exists} {
		all["observe: "+name] = scenario{service: s}
	}
	for name, s := range removals() {
		s.removed = true
		all["remove: "+name] = s
	}
	for _, name := range []string{"an empty bucket", "owned by another", "a failing service", "no Secret", "no ConfigMap",
		"possibly created, under Retain"} {
		s := removals()[name]
		s.removed, s.ending, s.reconciles = true, true, 3
		all["remove with its namespace: "+name] = s
	}
	for name, s := range lackings() {
		s.service = exists
		all["lack: "+name] = s
	}
	for name, s := range courses() {
		s.service = exists
		all["course: "+name] = s
	}
	for _, answer := range []string{
		"403 SignatureDoesNotMatch", "403 AccessDenied", "403 RequestTimeTooSkewed", "400 AuthorizationHeaderMalformed",
		"404 NoSuchBucket", "503 SlowDown", "302 -", "301 PermanentRedirect", "500 -",
	} {
		all["fail: "+answer] = scenario{reconciles: 4,
			service: withFailures(absent, requestHead, strings.Fields(answer)[0], requestList, answer)}
	}
	return all
}
