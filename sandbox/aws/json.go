package aws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
	"github.com/kamino-dev/kamino/sandbox/sigv4"
)

// clusterPath is the beginning of the path of a cluster of EKS, whose requests have no body.
const clusterPath = "/clusters/"

// isJSON reports whether a request is of a service that speaks JSON.
func isJSON(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path+"/", clusterPath) || r.Header.Get("X-Amz-Target") != "" || strings.Contains(r.Header.Get("Content-Type"), "json")
}

// understandJSON finds service and action of a JSON request, and reads its texts. Of these services there is one action.
func (s *front) understandJSON(c *call, body []byte) error {
	scope, _ := sigv4.Read(c.r)
	_, name, _ := strings.Cut(c.r.Header.Get("X-Amz-Target"), ".")
	cluster, isCluster := strings.CutPrefix(c.r.URL.Path, clusterPath)
	switch {
	case isCluster && !strings.Contains(cluster, "/"):
		name = "DescribeCluster"
	case name == "":
		name = c.r.Method + " " + c.r.URL.Path
	}
	found := s.services[scope.Service]
	if found == nil || found.actions[name] == nil {
		return bad("UnknownOperationException", "The simulation has no operation %s of service %s", name, scope.Service)
	}
	c.service, c.action = found, found.actions[name]
	if isCluster {
		c.in = query.Parse(url.Values{"name": {cluster}})
		return nil
	}
	given := map[string]any{}
	if err := json.Unmarshal(body, &given); err != nil {
		return bad("SerializationException", "%v", err)
	}
	form := url.Values{}
	for key, value := range given {
		text, is := value.(string)
		if !is {
			text = fmt.Sprint(value)
		}
		form.Set(key, text)
	}
	c.in = query.Parse(form)
	return nil
}

// refusalOfJSON are the errors of a service that speaks JSON about signatures and credentials, by the errors of other services.
// Source: AWS Systems Manager API Reference, Common Errors.
var refusalOfJSON = map[string]*problem{
	"SignatureDoesNotMatch":      bad("InvalidSignatureException", "The request signature we calculated does not match the signature you provided."),
	"InvalidClientTokenId":       bad("UnrecognizedClientException", "The security token included in the request is invalid."),
	"ExpiredToken":               bad("ExpiredTokenException", "The security token included in the request is expired"),
	"MissingAuthenticationToken": bad("MissingAuthenticationTokenException", "Missing Authentication Token"),
	"IncompleteSignature":        bad("IncompleteSignatureException", "The request signature does not conform to AWS standards."),
	"AccessDenied":               nil, // with the text of the denial
}

// sendJSON sends an answer or an error as JSON.
func sendJSON(w http.ResponseWriter, answer query.Element, p *problem) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	status, content := http.StatusOK, jsonOf(answer)
	if p != nil {
		if own, found := refusalOfJSON[p.Code]; own != nil {
			p = own
		} else if found {
			p = bad(p.Code+"Exception", "%s", p.Text)
		}
		w.Header().Set("X-Amzn-Errortype", p.Code)
		status, content = p.Status, map[string]any{"__type": p.Code, "message": p.Text}
	}
	w.WriteHeader(status)
	data, _ := json.Marshal(content) // plain values
	_, _ = w.Write(data)             // the client has closed the connection
}

func jsonOf(e query.Element) any {
	if len(e.Kids) == 0 {
		return e.Text
	}
	out := map[string]any{}
	for _, kid := range e.Kids {
		if kid.Name != "" {
			out[kid.Name] = jsonOf(kid)
		}
	}
	return out
}

// parameters are the parameters of Systems Manager, such as the image of an operating system.
type parameters struct{ *backend }

// parameter is a parameter that a client made.
type parameter struct {
	Value   string `json:"value"`
	Type    string `json:"type"`
	Version int    `json:"version"`
}

func (s parameters) actions() []*action {
	return []*action{
		{name: "GetParameter", noun: "parameter", reads: true, handle: s.get},
		{name: "PutParameter", noun: "parameter", handle: s.put},
	}
}

// known is a parameter that a client made, or of the configuration; nil if there is none.
func (s parameters) known(name string, st *state) *parameter {
	if p := st.Parameters[name]; p != nil {
		return p
	}
	if value, found := s.config.Parameters[name]; found {
		return &parameter{Value: value, Type: "String", Version: 1}
	}
	return nil
}

func (s parameters) get(c *call, st *state) (query.Element, error) {
	name := c.in.Get("Name")
	p := s.known(name, st)
	if p == nil {
		return query.Element{}, bad("ParameterNotFound", "Parameter %s not found.", name)
	}
	return query.Of("", query.Of("Parameter", query.Text("Name", name), query.Text("Type", p.Type), query.Text("Value", p.Value),
		query.Text("DataType", "text"),
		query.Text("ARN", s.arn("ssm", "parameter"+name)))), nil
}

// put makes a parameter, or changes the value of one. Source: AWS Systems Manager API Reference, PutParameter.
func (s parameters) put(c *call, st *state) (query.Element, error) {
	name, kind := c.in.Get("Name"), c.in.Get("Type")
	overwrites := c.in.Get("Overwrite") == "true"
	was := s.known(name, st)
	switch {
	case was == nil && kind == "":
		return query.Element{}, bad("ValidationException", "A parameter type is required when you create a parameter.")
	case was != nil && !overwrites:
		return query.Element{}, bad("ParameterAlreadyExists", "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	case was == nil:
		was = &parameter{Type: kind}
	}
	st.Parameters[name] = &parameter{Value: c.in.Get("Value"), Type: cmp.Or(kind, was.Type), Version: was.Version + 1}
	return query.Of("", query.Text("Tier", "Standard")), nil
}

// resolved is the image of launch data. A template may name a parameter that has the image.
func (w *backend) resolved(image string) string {
	name, isParameter := strings.CutPrefix(image, "resolve:ssm:")
	if !isParameter {
		return image
	}
	return w.config.Parameters[name]
}
