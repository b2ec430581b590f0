package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 asks for it with tags; nothing is kept safe by it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// Queries about a bucket.
const (
	// listOne asks for one key of the bucket.
	listOne = "list-type=2&max-keys=1"
	tagging = "tagging"
)

// send sends one request about the bucket and returns the body of the answer, as
// far as maxBody. An answer that is no success is a minio.ErrorResponse, with a
// code only where the server gave one in S3's XML.
func (c *Client) send(ctx context.Context, method, query string, payload []byte) ([]byte, error) {
	location := *c.endpoint
	location.RawQuery, location.Path = query, "/"+c.target.Bucket
	if c.target.VirtualHost {
		location.Path, location.Host = "/", c.target.Bucket+"."+location.Host
	}
	request, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	sum := sha256.Sum256(payload)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if len(payload) > 0 {
		short := md5.Sum(payload) //nolint:gosec // as above
		request.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(short[:]))
	}
	signed := signer.SignV4(*request, c.credentials.AccessKeyID, c.credentials.SecretAccessKey, c.credentials.SessionToken, c.target.Region)
	response, err := c.http.Do(signed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // nothing more is wanted of it
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent && method != http.MethodHead {
		return body, nil
	}
	answer := minio.ErrorResponse{}
	_ = xml.Unmarshal(body, &answer) // what is not XML has no code, and is judged by its status
	answer.StatusCode, answer.Region = response.StatusCode, response.Header.Get("x-amz-bucket-region")
	return nil, answer
}
