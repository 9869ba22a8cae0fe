package aws

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// kindByCode is the meaning of error codes of EC2 and Auto Scaling. For other codes the end of the code and the HTTP
// status decide. Source: "Error codes for the Amazon EC2 API" and "Common Errors" of the AWS APIs.
var kindByCode = map[string]cloud.Kind{
	"UnauthorizedOperation": cloud.Denied, "AccessDenied": cloud.Denied, "AccessDeniedException": cloud.Denied,
	"OptInRequired": cloud.Denied, "Blocked": cloud.Denied,
	"AuthFailure": cloud.Unauthenticated, "InvalidClientTokenId": cloud.Unauthenticated, "UnrecognizedClientException": cloud.Unauthenticated,
	"SignatureDoesNotMatch": cloud.Unauthenticated, "IncompleteSignature": cloud.Unauthenticated, "MissingAuthenticationToken": cloud.Unauthenticated,
	"ExpiredToken": cloud.Unauthenticated, "ExpiredTokenException": cloud.Unauthenticated, "RequestExpired": cloud.Unauthenticated,
	"RequestLimitExceeded": cloud.Throttled, "Throttling": cloud.Throttled, "ThrottlingException": cloud.Throttled,
	"SnapshotCreationPerVolumeRateExceeded": cloud.Throttled, "ConcurrentSnapshotLimitExceeded": cloud.Throttled,
	"AMIQuotaExceeded": cloud.QuotaExceeded, "ResourceCountExceeded": cloud.QuotaExceeded,
	"IncorrectInstanceState": cloud.Conflict, "IncorrectState": cloud.Conflict, "InvalidAMIName.Duplicate": cloud.Conflict,
	"InvalidSnapshot.InUse": cloud.Conflict, "InvalidSnapshot.NotReady": cloud.Conflict,
	"VolumeInUse": cloud.Conflict, "InvalidVolume.ZoneMismatch": cloud.Conflict,
	"InsufficientInstanceCapacity": cloud.Unavailable, "InsufficientCapacity": cloud.Unavailable, "InsufficientHostCapacity": cloud.Unavailable,
	"InvalidLaunchTemplateId.VersionNotFound": cloud.NotFound, "InvalidLaunchTemplateName.NotFoundException": cloud.NotFound,
	"ResourceContention": cloud.Conflict, "ScalingActivityInProgress": cloud.Conflict, "ResourceInUse": cloud.Conflict,
	"InternalError": cloud.Unavailable, "InternalFailure": cloud.Unavailable, "ServiceUnavailable": cloud.Unavailable, "Unavailable": cloud.Unavailable,
}

// kindOf returns the kind of an error code. kindOf also handles codes outside the table.
func kindOf(code string, status int) cloud.Kind {
	switch kind, known := kindByCode[code]; {
	case known:
		return kind
	case ofKey(code):
		return cloud.Denied
	case strings.HasSuffix(code, ".NotFound"):
		return cloud.NotFound
	case strings.HasSuffix(code, "LimitExceeded"):
		return cloud.QuotaExceeded
	case status == http.StatusUnauthorized:
		return cloud.Unauthenticated
	case status == http.StatusForbidden:
		return cloud.Denied
	case status == http.StatusNotFound:
		return cloud.NotFound
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status == 0, status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return cloud.Unavailable
	default:
		return cloud.Invalid
	}
}

// ofKey reports whether an error concerns the encryption key of a disk: a disabled key, or a key that the credential may
// not use. The codes are "CustomerKeyHasBeenRevoked" and codes with KMS.
func ofKey(code string) bool {
	return strings.Contains(strings.ToUpper(code), "KMS") || strings.HasPrefix(code, "CustomerKey")
}

// fail converts an SDK error to cloud.Error. A nil error and a cloud.Error stay unchanged.
func fail(op string, resource fmt.Stringer, err error) error {
	var ours *cloud.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	out := &cloud.Error{Op: op, Resource: resource.String(), Err: err}
	var apiError smithy.APIError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &apiError):
		out.Code, out.Message = apiError.ErrorCode(), oneLine(apiError.ErrorMessage())
		var response *smithyhttp.ResponseError
		status := 0
		if errors.As(err, &response) {
			status = response.HTTPStatusCode()
			out.RetryAfter = retryAfter(response)
		}
		out.Kind = kindOf(out.Code, status)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind, out.Message = cloud.Unavailable, "given up while waiting for AWS: "+oneLine(err.Error())
	case errors.As(err, &authority):
		out.Kind, out.Message = cloud.Unavailable, "the server's certificate is not trusted: name its CA in AWS_CA_BUNDLE, or check the proxy"
	case strings.Contains(err.Error(), "get identity") || strings.Contains(err.Error(), "refresh cached credentials"): // the SDK has no type for this error
		out.Kind, out.Message = cloud.Unauthenticated, "no AWS credential found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; "+
			"or set AWS_PROFILE, or run with a role (IRSA, Pod Identity, an instance profile)"
	default:
		out.Kind, out.Message = withoutCode(err)
	}
	if remedy := remedyOf(out); remedy != "" {
		out.Message = strings.TrimSuffix(out.Message, ".") + remedy
	}
	return out
}

// withoutCode returns kind and message of an error without a code of AWS: the page of a proxy, or no answer. A page with
// status 404 says nothing about the resource.
func withoutCode(err error) (cloud.Kind, string) {
	var page *smithyhttp.ResponseError
	if !errors.As(err, &page) || page.HTTPStatusCode() < http.StatusBadRequest {
		return cloud.Unavailable, "AWS cannot be reached: " + oneLine(err.Error())
	}
	kind, status := cloud.Unavailable, page.HTTPStatusCode()
	switch status {
	case http.StatusForbidden:
		kind = cloud.Denied
	case http.StatusTooManyRequests:
		kind = cloud.Throttled
	}
	return kind, fmt.Sprintf("the answer is HTTP %d %s without an error code of AWS: check the proxy between Kamino and AWS", status, http.StatusText(status))
}

// remedyOf returns the remedy for an answer of AWS without a remedy in the text.
func remedyOf(e *cloud.Error) string {
	switch {
	case e.Kind == cloud.Denied && strings.Contains(e.Message, "explicit deny"):
		return "; an explicit deny in a service control policy or permissions boundary overrides all policies of the account: " +
			"ask the policy's owner for an exception"
	case ofKey(e.Code):
		return "; enable the key, and allow the credential to use the key: the actions are at " + docs + "#permissions"
	case e.Kind == cloud.Denied && e.Code != "":
		return "; allow the action in the IAM policy of the credential"
	case e.Kind == cloud.Unauthenticated && e.Code != "":
		return "; get a new credential, or check this machine's clock"
	case e.Kind == cloud.QuotaExceeded:
		return "; ask AWS for a larger quota, or delete unused resources"
	}
	return ""
}

// retryAfter reads the Retry-After header in seconds; zero if absent.
func retryAfter(response *smithyhttp.ResponseError) time.Duration {
	if response.Response == nil {
		return 0
	}
	if s, err := strconv.Atoi(response.Response.Header.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	return 0
}

// isCode reports whether an SDK error has one of the codes.
func isCode(err error, codes ...string) bool {
	var apiError smithy.APIError
	if !errors.As(err, &apiError) {
		return false
	}
	for _, code := range codes {
		if apiError.ErrorCode() == code {
			return true
		}
	}
	return false
}

// isNotFound reports whether an SDK error means a missing resource.
func isNotFound(err error) bool {
	var apiError smithy.APIError
	return errors.As(err, &apiError) && strings.HasSuffix(apiError.ErrorCode(), ".NotFound")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
