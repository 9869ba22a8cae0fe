package nodeadm

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// A token is the URL of a signed request to STS. The holder of the token can only ask STS for the signer's identity.
// Source: kubernetes-sigs/aws-iam-authenticator, which EKS runs and `aws eks get-token` supports.
const (
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "X-K8s-Aws-Id"
	// tokenLasts is how long STS takes the signature, less a minute for the way.
	tokenLasts = 14 * time.Minute
)

// signer creates tokens for a cluster.
type signer struct {
	cluster string
	config  sdk.Config

	mu    sync.Mutex
	token string
	until time.Time
}

// wrap has requests carry a token.
func (s *signer) wrap(next http.RoundTripper) http.RoundTripper { return &bearer{s, next} }

type bearer struct {
	signer *signer
	next   http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.signer.current(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}

// current is a token that is valid for a while.
func (s *signer) current(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.token, nil
	}
	token, err := Token(ctx, s.config, s.cluster)
	if err == nil {
		s.token, s.until = token, time.Now().Add(tokenLasts)
	}
	return s.token, err
}

// Token proves the identity of a credential's holder to a cluster.
func Token(ctx context.Context, config sdk.Config, cluster string) (string, error) {
	signed, err := sts.NewPresignClient(sts.NewFromConfig(config)).PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, func(o *sts.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, sts.WithAPIOptions(smithyhttp.SetHeaderValue(clusterHeader, cluster), smithyhttp.SetHeaderValue("X-Amz-Expires", "60")))
	})
	if err != nil {
		return "", fmt.Errorf("token for cluster %s: %w", cluster, err)
	}
	return tokenPrefix + encode.EncodeToString([]byte(signed.URL)), nil
}

// Authenticator finds the owner of a token with STS, as a webhook of the API server. Instances with the nodes' role are nodes,
// with their private DNS names, as with an access entry of type EC2_LINUX.
type Authenticator struct {
	Cluster string
	// Role is the name of the nodes' role.
	Role string
	// STS is the address of STS, and Client a client for STS.
	STS    string
	Client *http.Client
	// Name returns the node name of an instance.
	Name func(ctx context.Context, instance string) (string, error)
}

// ServeHTTP answers TokenReviews.
func (a *Authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&review); err != nil {
		http.Error(w, "no TokenReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	user, err := a.review(r.Context(), review.Spec.Token)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: err == nil, User: user}
	if err != nil {
		review.Status.Error = err.Error()
	}
	review.Spec = authenticationv1.TokenReviewSpec{}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // a lost API server asks again
}

// review returns the signer of a token.
func (a *Authenticator) review(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	var none authenticationv1.UserInfo
	address, err := a.address(token)
	if err != nil {
		return none, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return none, fmt.Errorf("the token's address: %w", err)
	}
	r.Header.Set(clusterHeader, a.Cluster)
	resp, err := a.Client.Do(r)
	if err != nil {
		return none, fmt.Errorf("ask STS: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return none, fmt.Errorf("STS answers %s", resp.Status)
	}
	var who struct {
		ARN string `xml:"GetCallerIdentityResult>Arn"`
	}
	if err := xml.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&who); err != nil {
		return none, fmt.Errorf("read STS's answer: %w", err)
	}
	// arn:aws:sts::ACCOUNT:assumed-role/ROLE/INSTANCE
	parts := strings.Split(who.ARN, "/")
	if len(parts) != 3 || !strings.HasSuffix(parts[0], ":assumed-role") || parts[1] != a.Role {
		return none, fmt.Errorf("%s has no identity in this cluster", who.ARN)
	}
	name, err := a.Name(ctx, parts[2])
	if err != nil {
		return none, err
	}
	return authenticationv1.UserInfo{Username: "system:node:" + name, UID: who.ARN, Groups: []string{"system:bootstrappers", "system:nodes"}}, nil
}

// address is the URL in a token, checked: a request to STS for the caller's identity, for this cluster.
func (a *Authenticator) address(token string) (string, error) {
	text, is := strings.CutPrefix(token, tokenPrefix)
	if !is {
		return "", fmt.Errorf("the token does not begin with %s", tokenPrefix)
	}
	decoded, err := encode.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	at, err := url.Parse(string(decoded))
	if err != nil {
		return "", fmt.Errorf("the token is no address: %w", err)
	}
	sts, err := url.Parse(a.STS)
	if err != nil {
		return "", err
	}
	query := at.Query()
	switch {
	case at.Scheme != sts.Scheme || at.Host != sts.Host || strings.Trim(at.Path, "/") != "":
		return "", fmt.Errorf("the token is for %s, and not for STS", at.Host)
	case query.Get("Action") != "GetCallerIdentity" || len(query["Action"]) != 1:
		return "", fmt.Errorf("the token asks STS for another action than GetCallerIdentity")
	case !slices.Contains(strings.Split(query.Get("X-Amz-SignedHeaders"), ";"), strings.ToLower(clusterHeader)):
		return "", fmt.Errorf("the token was made for no cluster")
	}
	return at.String(), nil
}
