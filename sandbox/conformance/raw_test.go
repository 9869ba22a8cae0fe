package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// token asks the simulated Entra for a token, as any client does.
func (w *cloudEnv) token() string {
	w.t.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {w.secret},
		"scope": {"https://management.core.windows.net//.default"},
	}
	answer, err := w.web.Client().PostForm(w.web.URL+"/"+tenant+"/oauth2/v2.0/token", form)
	w.must(err)
	defer answer.Body.Close()
	var body struct {
		Token string `json:"access_token"`
	}
	w.must(json.NewDecoder(answer.Body).Decode(&body))
	if body.Token == "" {
		w.t.Fatalf("no token: %s", answer.Status)
	}
	return body.Token
}

// request is a request of a foreign client, which the provider would not send.
func (w *cloudEnv) request(method, path string, body any) *http.Response {
	w.t.Helper()
	data, err := json.Marshal(body)
	w.must(err)
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.web.URL+path+"?api-version=2024-07-01", reader)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.token())
	request.Header.Set("Content-Type", "application/json")
	answer, err := w.web.Client().Do(request)
	w.must(err)
	if answer.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(answer.Body)
		w.must(err)
		w.t.Fatalf("%s %s: %s %s", method, path, answer.Status, strings.TrimSpace(string(text)))
	}
	return answer
}

// change writes a resource with a foreign client.
func (w *cloudEnv) change(method, path string, body any) {
	w.t.Helper()
	answer := w.request(method, path, body)
	_, err := io.Copy(io.Discard, answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
}

// scale sets the size of the scale set with a foreign client, as an autoscaler does.
func (w *cloudEnv) scale(size int) {
	w.t.Helper()
	w.settled()
	w.change(http.MethodPatch, string(w.pool), map[string]any{"sku": map[string]any{"capacity": size}})
}

// setUpgrades sets the scale set's upgrade policy with a foreign client.
func (w *cloudEnv) setUpgrades(automatic bool) {
	w.t.Helper()
	mode := "Manual"
	if automatic {
		mode = "Automatic"
		w.upgradeAll() // else the policy would find work later
	}
	w.change(http.MethodPatch, string(w.pool), map[string]any{"properties": map[string]any{"upgradePolicy": map[string]any{"mode": mode}}})
	w.settled()
}
