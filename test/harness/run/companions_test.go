package run

import (
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestSeparateCompanions(t *testing.T) {
	g := NewWithT(t)
	by := func(pods ...string) auditv1.Event {
		return auditv1.Event{User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:ns:both",
			Extra:    map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": pods},
		}}
	}
	events := []auditv1.Event{by("manager-0"), by("webhook-0"), by()}
	separateCompanions(events, func(pod string) bool { return pod == "webhook-0" })
	g.Expect(events[0].User.Username).To(Equal("system:serviceaccount:ns:both"))
	g.Expect(events[1].User.Username).To(Equal("system:serviceaccount:ns:both (companion)"))
	g.Expect(events[2].User.Username).To(Equal("system:serviceaccount:ns:both"))
}
