// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
)

const (
	tenantPath = "/validate-leasehold-dev-v1beta1-tenant"
	viewPath   = "/validate-leasehold-dev-v1beta1-markdownview"
)

// reviews is the server of the operator's webhooks.
func reviews(t *testing.T) http.Handler {
	t.Helper()
	w := &tenant.Webhook{Reader: fake.NewClientBuilder().WithScheme(newScheme()).Build()}
	server := webhook.NewServer(webhook.Options{})
	bounded := runners.BoundBodies(server, reviewLimits, clock.RealClock{})
	bounded.Register(tenantPath, admission.WithValidator(newScheme(), w))
	bounded.Register("/mutate-leasehold-dev-v1beta1-tenant", admission.WithDefaulter(newScheme(), w))
	bounded.Register(viewPath, admission.WithValidator(newScheme(), &markdownview.Webhook{}))
	return server.WebhookMux()
}

func listOf(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// review is the body of a request with this object, and with it as the old one at an update.
func review(operation, object string) string {
	old := ""
	if operation == "UPDATE" {
		old = `,"oldObject":` + object
	}
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":%q,`+
		`"dryRun":true,"options":{},"object":%s%s}}`, operation, object, old)
}

func tenantWith(fields string) string {
	return `{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant","metadata":{"name":"a"},` + fields + `}`
}

// post returns the answer to a review.
func post(t *testing.T, server http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, request)
	return answer
}

// No review of a Tenant costs more than some memory and a moment, whoever sends it. What is within the
// limit of bytes is refused by the number of its values, and what is within that by the length of each list.
func TestHostileReviews(t *testing.T) {
	server := reviews(t)
	conditions := func(n int) string { return tenantWith(`"status":{"conditions":` + listOf("{}", n) + `}`) }
	names := func(n int) string { return tenantWith(`"spec":{"namespaces":` + listOf(`"a"`, n) + `}`) }
	large := tenantWith(`"spec":{"namespacePrefix":"` + strings.Repeat("x", 3<<20) + `"}`)
	for name, tc := range map[string]struct {
		body   string
		status int
		answer string
	}{
		"6.9 MiB of conditions":          {review("CREATE", conditions(2_400_000)), 413, "more than 1048576 bytes"},
		"1 MiB of conditions":            {review("CREATE", conditions(340_000)), 413, "more than the limit of 32768"},
		"509,000 names, twice":           {review("UPDATE", names(509_000)), 413, "more than 1048576 bytes"},
		"a dry run of a Tenant of 3 MiB": {review("CREATE", large), 413, "more than 1048576 bytes"},
		"16,000 conditions":              {review("CREATE", conditions(16_000)), 200, "status.conditions: Too many: 16000"},
		"16,000 names, twice":            {review("UPDATE", names(16_000)), 200, "spec.namespaces: Too many: 16000"},
		"a Tenant of 500 KiB": {review("CREATE", tenantWith(`"spec":{"namespacePrefix":"`+strings.Repeat("x", 500<<10)+`"}`)), 200,
			"the object must be at most 393216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{tenantPath, "/mutate-leasehold-dev-v1beta1-tenant"} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				answer := post(t, server, path, tc.body)
				runtime.ReadMemStats(&after)
				allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
				t.Logf("%s: %d MiB allocated in %s", path, allocated, time.Since(began))
				if answer.Code != tc.status || allocated > 20 || !strings.Contains(answer.Body.String(), tc.answer) {
					t.Errorf("%s: %d MiB allocated, status %d: %.300s", path, allocated, answer.Code, answer.Body)
				}
			}
		})
	}
}

// A path with a limit of its own is one that the API server calls. The limit is beyond what it sends.
func TestReviewLimits(t *testing.T) {
	manifest, err := os.ReadFile("config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path := range reviewLimits {
		if !strings.Contains(string(manifest), "path: "+path+"\n") {
			t.Errorf("no webhook has the path %s", path)
		}
	}
	// The largest object of etcd, twice, by a user of a thousand groups.
	view := `{"apiVersion":"leasehold.dev/v1beta1","kind":"MarkdownView","metadata":{"name":"a"},"spec":{"markdowns":{` +
		`"a.md":"` + strings.Repeat("x", 3<<19) + `"}}}`
	groups := `"userInfo":{"groups":` + listOf(`"`+strings.Repeat("g", 100)+`"`, 1000) + "},"
	body := strings.Replace(review("UPDATE", view), `"dryRun"`, groups+`"dryRun"`, 1)
	if answer := post(t, reviews(t), viewPath, body); answer.Code != http.StatusOK {
		t.Errorf("an update of %d bytes: %d %.300s", len(body), answer.Code, answer.Body)
	}
}
