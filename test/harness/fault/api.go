// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// auditIDHeader is the header with which an API server returns the ID of a request in its audit
// log.
const auditIDHeader = "Audit-Id"

// APIOptions returns the options of a proxy in front of the API server of config, for clients that
// send their own credentials. It uses only the address and the CA of config. Before also uses the
// credentials.
func APIOptions(config *rest.Config) (Options, error) {
	upstream, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return Options{}, fmt.Errorf("reading how to reach the API server: %w", err)
	}
	// TLS towards the replica, as clients of Kubernetes send tokens over nothing else.
	return Options{Upstream: config.Host, UpstreamTLS: upstream, KeepAlive: true, Kubernetes: true, TLS: true}, nil
}

// NewAPIProxy returns a proxy between one replica of an operator and the API server of config:
// NewProxy with APIOptions. The proxy forwards the replica's credentials and does not record them.
// If c is nil, it uses the real clock.
func NewAPIProxy(config *rest.Config, c clock.Clock) (*Proxy, error) {
	o, err := APIOptions(config)
	if err != nil {
		return nil, err
	}
	o.Clock = c
	return NewProxy(o)
}

// Connect changes config so that its clients use the proxy. It replaces the host and the whole TLS
// configuration, including client certificates. Pass it as env.InstallOptions.Connect.
func (p *Proxy) Connect(config *rest.Config) {
	config.Host, config.TLSClientConfig = p.URL(), rest.TLSClientConfig{CAData: p.CA()}
}

// retryAfter is the Retry-After, in seconds, of an overloaded API server.
const retryAfter = 1

// refusals are the API server's answers to requests that it did not carry out.
var refusals = map[int]*apierrors.StatusError{
	http.StatusForbidden: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("there are no such rights")),
	http.StatusNotFound: apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0,
		false),
	http.StatusConflict: apierrors.NewConflict(schema.GroupResource{}, "", errors.New(
		"the object has been modified; please apply your changes to the latest version and try again")),
	http.StatusTooManyRequests:     apierrors.NewTooManyRequests("too many requests, please try again later", retryAfter),
	http.StatusInternalServerError: apierrors.NewInternalError(errors.New("injected")),
	http.StatusServiceUnavailable:  apierrors.NewServiceUnavailable("the server is currently unable to handle the request"),
	http.StatusGatewayTimeout:      apierrors.NewTimeoutError("request did not complete within the requested timeout", 0),
}

// Refusal returns the Answer of an API server that refuses a request with the status code 403, 404,
// 409, 429, 500, 503 or 504 (timeout). The message is that of an API server. The body is JSON,
// which clients that accept only protobuf understand, too. The API server does not see the request.
// For other codes Refusal returns an error.
func Refusal(code int) (Answer, error) { return refusal(code, "") }

// refusal returns a Refusal whose message ends with a note.
func refusal(code int, note string) (Answer, error) {
	known, found := refusals[code]
	if !found {
		return Answer{}, fmt.Errorf("refusing as an API server does: no refusal has the code %d", code)
	}
	status := known.ErrStatus
	if note != "" {
		status.Message += " [" + note + "]"
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return Answer{}, fmt.Errorf("encoding a refusal: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	return Answer{Status: code, Header: header, Body: string(body)}, nil
}
