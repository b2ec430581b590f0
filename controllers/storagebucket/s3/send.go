package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 requires it with tags; nothing is kept safe by it
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

// The query parameters of requests.
const (
	// listOneKey lists at most one key of the bucket.
	listOneKey = "list-type=2&max-keys=1"
	tagging    = "tagging"
)

// send sends one request about the bucket and returns at most maxBody bytes of the response, or
// maxTags bytes of tags. For a response that is not a success it returns a minio.ErrorResponse,
// which has a code only if the body is S3's XML.
func (c *Client) send(ctx context.Context, method, query string, payload []byte) ([]byte, error) {
	location := *c.endpoint
	location.RawQuery, location.Path = query, "/"+c.target.Bucket
	if c.target.VirtualHost {
		location.Path, location.Host = "/", c.target.Bucket+"."+location.Host
	}
	request, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("creating the request: %w", err)
	}
	sum := sha256.Sum256(payload)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if len(payload) > 0 {
		short := md5.Sum(payload) //nolint:gosec // as above
		request.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(short[:]))
	}
	signed := signer.SignV4(*request, c.credentials.AccessKeyID, c.credentials.SecretAccessKey, c.credentials.SessionToken,
		c.target.Region)
	response, err := c.http.Do(signed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the response has been read
	most := int64(maxBody)
	if query == tagging {
		most = maxTags
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent && method != http.MethodHead {
		return body, nil
	}
	answer := minio.ErrorResponse{}
	_ = xml.Unmarshal(body, &answer) // without XML there is no code, and the status decides
	answer.StatusCode, answer.Region = response.StatusCode, response.Header.Get("x-amz-bucket-region")
	return nil, answer
}
