package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"leasehold.dev/controllers/tenant"
)

// TestTenantWebhooksAnswer tests that both webhooks of Tenants are served, and that they know
// the operator's namespace and read from the cache.
func TestTenantWebhooksAnswer(t *testing.T) {
	_, mgr, _ := newWatches(t)
	if err := tenant.SetupWebhookWithManager(mgr, tenant.Options{OperatorNamespace: "leasehold-system"}); err != nil {
		t.Fatal(err)
	}
	answer := func(path, prefix string) *admissionv1.AdmissionResponse {
		t.Helper()
		review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",`+
			`"kind":{"group":"leasehold.dev","version":"v1beta1","kind":"Tenant"},"object":{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant",`+
			`"metadata":{"name":"a"},"spec":{%s"namespaces":["system"],"admins":[{"kind":"User","name":"ann"}]}}}}`, prefix)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"-leasehold-dev-v1beta1-tenant",
			bytes.NewBufferString(review))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		mgr.GetWebhookServer().WebhookMux().ServeHTTP(recorder, request)
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s answers %d %q: %v", path, recorder.Code, recorder.Body, err)
		}
		return got.Response
	}
	if got := answer("/mutate", ""); !strings.Contains(string(got.Patch), `"path":"/spec/namespacePrefix","value":"a-"`) {
		t.Errorf("the defaults are %s (%v)", got.Patch, got.Result)
	}
	if got := answer("/validate", ""); !got.Allowed {
		t.Errorf("refused: %v", got.Result)
	}
	if got := answer("/validate", `"namespacePrefix":"leasehold-",`); got.Allowed ||
		!strings.Contains(got.Result.Message, "the operator's own") {
		t.Errorf("the operator's own namespace: allowed %t, %v", got.Allowed, got.Result)
	}
}
