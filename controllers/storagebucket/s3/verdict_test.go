// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"net/http"
	"strings"
	"testing"
)

// A redirect is of another region if the service says so, by its header or its code, and the region is not spec.region.
func TestVerdictOnRedirects(t *testing.T) {
	for _, code := range []string{"", "XCustom", "PermanentRedirect", "TemporaryRedirect"} {
		for region, want := range map[string]Verdict{"": redirected, "us-east-1": redirected, "eu-west-1": otherRegion} {
			if region == "" && strings.HasSuffix(code, "Redirect") {
				want = otherRegion
			}
			for _, status := range []int{300, 301, 302, 307, 399} {
				if got := verdictOn(answer{status: status, code: code, region: region}, "us-east-1"); got != want {
					t.Errorf("%d %q to the region %q: %+v, want %+v", status, code, region, got, want)
				}
			}
		}
	}
}

// Only a HEAD response with status 200 means that the bucket can be used.
func TestProbe_status_codes(t *testing.T) {
	status := 0
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
		w.WriteHeader(status)
	})
	for status = 200; status < 600; status++ {
		if got := c.Probe(t.Context()); got.OK() != (status == http.StatusOK) {
			t.Errorf("%d: %+v", status, got)
		}
		err := c.Create(t.Context(), "k", "v")
		if (err == nil) != (status == http.StatusOK || status == http.StatusNoContent) {
			t.Errorf("%d to the creation: %v", status, err)
		}
	}
}

// A code in a message is one of the table: any other one is text of the server. Each message is complete, and asks to
// grant access only where access is denied.
func TestMessagesShowKnownCodesOnly(t *testing.T) {
	for code := range byCode {
		for _, shown := range []string{code, code + "$(id)"} {
			for status := 300; status < 600; status++ {
				got := verdictOn(answer{status: status, code: shown}, "us-east-1")
				if strings.Contains(got.Message, "$(id)") || strings.Contains(got.Message, "%") || got.Reason == "" ||
					strings.Contains(got.Message, "grant") && shown != "AccessDenied" {
					t.Errorf("%d %s: %+v", status, shown, got)
				}
			}
		}
	}
}
