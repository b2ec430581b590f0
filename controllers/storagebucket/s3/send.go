package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// send sends one request about the bucket, for what minio-go has no call that is
// one request. An answer other than 200 is a minio.ErrorResponse.
func (c *Client) send(ctx context.Context, method, query string, payload []byte) error {
	location := *c.endpoint
	location.RawQuery, location.Path = query, "/"+c.target.Bucket
	if c.target.VirtualHost {
		location.Path, location.Host = "/", c.target.Bucket+"."+location.Host
	}
	request, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	sum := sha256.Sum256(payload)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	signed := signer.SignV4(*request, c.credentials.AccessKeyID, c.credentials.SecretAccessKey, c.credentials.SessionToken, c.target.Region)
	response, err := c.http.Do(signed)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // nothing more is wanted of it
	if response.StatusCode == http.StatusOK {
		return nil
	}
	answer := minio.ErrorResponse{}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	_ = xml.Unmarshal(content, &answer) // what is not XML has no code, and is judged by its status
	answer.StatusCode, answer.Region = response.StatusCode, response.Header.Get("x-amz-bucket-region")
	return answer
}
