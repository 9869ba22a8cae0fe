package azure

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// kindByCode is the meaning of Azure's error codes, in lower case. The HTTP status decides about other codes. Sources:
// Azure documentation, "Common error codes" of Azure Resource Manager and Azure Compute.
var kindByCode = map[string]cloud.Kind{
	"authorizationfailed":              cloud.Denied,
	"linkedauthorizationfailed":        cloud.Denied,
	"requestdisallowedbypolicy":        cloud.Denied,
	"scopelocked":                      cloud.Denied,
	"readonlydisabledsubscription":     cloud.Denied,
	"disabledsubscription":             cloud.Denied,
	"authenticationfailed":             cloud.Unauthenticated,
	"expiredauthenticationtoken":       cloud.Unauthenticated,
	"invalidauthenticationtoken":       cloud.Unauthenticated,
	"invalidauthenticationtokentenant": cloud.Unauthenticated,
	"quotaexceeded":                    cloud.QuotaExceeded,
	"resourcequotaexceeded":            cloud.QuotaExceeded,
	"toomanyrequests":                  cloud.Throttled,
	"subscriptionrequeststhrottled":    cloud.Throttled,
	"operationpreempted":               cloud.Conflict,
	"anotheroperationinprogress":       cloud.Conflict,
	"preconditionfailed":               cloud.Conflict,
	"retryableerror":                   cloud.Unavailable,
	"internalservererror":              cloud.Unavailable,
	"allocationfailed":                 cloud.Unavailable,
	"zonalallocationfailed":            cloud.Unavailable,
	"serverbusy":                       cloud.Unavailable,
	"missingsubscriptionregistration":  cloud.Invalid,
}

// kindByStatus is the meaning of the HTTP status for an unknown code.
func kindByStatus(status int) cloud.Kind {
	switch {
	case status == http.StatusUnauthorized:
		return cloud.Unauthenticated
	case status == http.StatusForbidden:
		return cloud.Denied
	case status == http.StatusNotFound:
		return cloud.NotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return cloud.Conflict
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return cloud.Unavailable
	default:
		return cloud.Invalid
	}
}

// fail converts an SDK error to cloud.Error. A nil error and a cloud.Error stay unchanged.
func fail(op string, resource fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	var ours *cloud.Error
	if errors.As(err, &ours) {
		return err
	}
	out := &cloud.Error{Op: op, Resource: resource.String(), Err: err}
	var response *azcore.ResponseError
	var refused *azidentity.AuthenticationFailedError
	switch {
	case errors.As(err, &response):
		fromResponse(out, response)
	case errors.As(err, &refused):
		fromCredential(out, refused.RawResponse, err.Error())
		if tried := attempts(err); tried != "" && refused.RawResponse == nil && out.Kind == cloud.Unauthenticated {
			out.Message = "no token received" + tried // the chain's own text repeats the list in many lines
		} else {
			out.Message += tried
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind, out.Message = cloud.Unavailable, "given up while waiting for Azure: "+err.Error()
	default:
		fromTransport(out, err)
	}
	if newer := (*unusable)(nil); errors.As(err, &newer) {
		out.Message += "; a newer credential is unusable: " + oneLine(newer.reason.Error())
	}
	return out
}

// fromResponse fills the error from an answer of Azure Resource Manager.
func fromResponse(out *cloud.Error, response *azcore.ResponseError) {
	body := readBody(response.RawResponse)
	out.Code = response.ErrorCode
	out.Message = body.text()
	if out.Message == "" {
		out.Message = fmt.Sprintf("Azure answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	out.Kind = kindByStatus(response.StatusCode)
	if kind, known := kindByCode[strings.ToLower(out.Code)]; known {
		out.Kind = kind
	}
	if isQuota(out.Code, out.Message) {
		out.Kind = cloud.QuotaExceeded
	}
	switch out.Kind {
	case cloud.Denied:
		out.Message = deniedMessage(out.Code, out.Message)
	case cloud.Unauthenticated:
		out.Message = "Azure did not accept the token: " + out.Message +
			" Log in again, or check tenant, credential and this machine's clock"
	case cloud.Throttled, cloud.Unavailable:
		out.RetryAfter = retryAfter(response.RawResponse)
	case cloud.QuotaExceeded:
		out.Message = strings.TrimSuffix(out.Message, ".") + "; ask Azure for a larger quota, or delete unused resources"
	case cloud.NotFound, cloud.Conflict, cloud.Invalid, cloud.Unsupported, cloud.Refused:
	}
}

func isQuota(code, message string) bool {
	text := strings.ToLower(code + " " + message)
	return strings.Contains(strings.ToLower(code), "quota") ||
		strings.Contains(strings.ToLower(code), "limitexceeded") ||
		strings.EqualFold(code, "OperationNotAllowed") && (strings.Contains(text, "quota") || strings.Contains(text, "reached its limit"))
}

// denied matches action and scope in "... does not have authorization to perform action 'A' over scope 'S' or the scope
// is invalid ...".
var denied = regexp.MustCompile(`(?i)client '([^']*)'.*perform action\(?s?\)? '([^']*)'.*scope\(?s?\)? '([^']*)'`)

func deniedMessage(code, message string) string {
	switch strings.ToLower(code) {
	case "requestdisallowedbypolicy":
		return message + " An Azure Policy forbids the request: ask the policy's owner for an exemption"
	case "scopelocked":
		return message + " The resource or the resource group has a lock: remove the lock"
	case "readonlydisabledsubscription", "disabledsubscription":
		return message + " The subscription is disabled: enable the subscription"
	}
	if found := denied.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("action %s on %s is not allowed for client %s: assign a role with the action at that scope, "+
			"then try again (a new role assignment needs some minutes)",
			found[2], found[3], found[1])
	}
	return message + " Assign a role with the action to the credential, then try again (a new role assignment needs some minutes)"
}

// errorBody is the error of Azure Resource Manager: {"error":{"code","message","details"}}.
type errorBody struct {
	Code    string      `json:"code"`
	Message string      `json:"message"`
	Details []errorBody `json:"details"`
}

// text returns the message and the details with new information.
func (b errorBody) text() string {
	text := oneLine(b.Message)
	for _, detail := range b.Details {
		if more := detail.text(); more != "" && !strings.Contains(text, more) {
			text = strings.TrimSpace(text + " " + more)
		}
	}
	return text
}

// withCode puts Azure's code before the message, unless the message contains the code.
func withCode(code, message string) string {
	switch {
	case message == "":
		return code
	case code == "" || strings.Contains(message, code):
		return message
	}
	return code + ": " + message
}

func readBody(response *http.Response) errorBody {
	if response == nil {
		return errorBody{}
	}
	data, err := runtime.Payload(response)
	if err != nil {
		return errorBody{}
	}
	var wrapped struct {
		Error errorBody `json:"error"`
	}
	if json.Unmarshal(data, &wrapped) == nil && (wrapped.Error.Message != "" || len(wrapped.Error.Details) > 0) {
		return wrapped.Error
	}
	var bare errorBody
	if json.Unmarshal(data, &bare) == nil {
		return bare
	}
	return errorBody{}
}

// retryAfter reads Azure's headers in seconds or milliseconds; zero if absent.
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	if ms, err := strconv.Atoi(response.Header.Get("Retry-After-Ms")); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	if s, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	return 0
}

// entraCodes are remedies for frequent errors of Microsoft Entra ID. Source: "Microsoft Entra authentication and
// authorization error codes".
var entraCodes = []struct{ code, remedy string }{
	{"AADSTS7000215", "the client secret is wrong: use the secret's value, not the secret's ID"},
	{"AADSTS7000222", "the client secret has expired: create a new secret for the application"},
	{"AADSTS700016", "the tenant does not know the application: check client ID and tenant"},
	{"AADSTS90002", "the cloud does not know the tenant: check the tenant and the cloud's name"},
	{"AADSTS700024", "the federated token is not valid at this time: check this machine's clock and the token file"},
	{"AADSTS700213", "no federated identity credential matches the token: check the token's issuer and subject"},
	{"AADSTS70021", "no federated identity credential matches the token: check the token's issuer and subject"},
	{"AADSTS53003", "a conditional access policy forbids the login"},
}

// fromCredential fills the error of a missing token.
func fromCredential(out *cloud.Error, response *http.Response, text string) {
	out.Kind = cloud.Unauthenticated
	if response == nil {
		if unreachable(text) {
			out.Kind, out.Message = cloud.Unavailable, "the identity endpoint cannot be reached: "+oneLine(text)
			return
		}
		out.Message = "no token received: " + oneLine(text)
		return
	}
	var answer struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if data, err := runtime.Payload(response); err == nil {
		_ = json.Unmarshal(data, &answer) // a body without JSON has no reason, but the status has
	}
	out.Code = answer.Error
	if response.StatusCode >= http.StatusInternalServerError {
		out.Kind = cloud.Unavailable
	}
	if response.StatusCode == http.StatusTooManyRequests {
		out.Kind, out.RetryAfter = cloud.Throttled, retryAfter(response)
	}
	description, _, _ := strings.Cut(answer.Description, "\n")
	description, _, _ = strings.Cut(description, " Trace ID:")
	for _, known := range entraCodes {
		if strings.Contains(description, known.code+":") || strings.HasPrefix(description, known.code) {
			out.Code = known.code
			out.Message = "no token received: " + known.remedy
			return
		}
	}
	if description == "" {
		description = fmt.Sprintf("the identity endpoint answered %d", response.StatusCode)
	}
	out.Message = "no token received: " + oneLine(description)
}

// unreachable distinguishes a failed connection from a refused credential. MSAL returns only text.
func unreachable(text string) bool {
	for _, sign := range []string{
		"dial tcp", "connection refused", "no such host", "i/o timeout", "x509:", "EOF", "connection reset", "TLS handshake", "deadline exceeded",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// fromTransport fills the error of a request without an answer.
func fromTransport(out *cloud.Error, err error) {
	out.Kind = cloud.Unavailable
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var network net.Error
	var address *url.Error
	switch {
	case errors.As(err, &authority), errors.As(err, &hostname):
		out.Message = "the server's certificate is not trusted: name its CA in SSL_CERT_FILE, or check the proxy (" + err.Error() + ")"
	case errors.As(err, &address), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		out.Message = "Azure cannot be reached: " + oneLine(err.Error())
	case noCredential(err):
		out.Kind = cloud.Unauthenticated
		out.Message = "no Azure credential found: run `az login`; or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET; " +
			"or name an azure.json; or run with a managed or workload identity" + attempts(err)
	default:
		out.Message = oneLine(err.Error())
	}
}

// noCredential recognizes azidentity's "credential unavailable" errors by the method NonRetriable, because the type is
// not exported.
func noCredential(err error) bool {
	var final interface{ NonRetriable() }
	return errors.As(err, &final)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// isStatus reports whether an SDK error is an answer with the status.
func isStatus(err error, status int) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.StatusCode == status
}

// isNotFound reports whether an SDK error means a missing resource.
func isNotFound(err error) bool { return isStatus(err, http.StatusNotFound) }
