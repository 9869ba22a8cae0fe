package aws

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// spotNotice is the time between the notice and the end of a spot instance.
const spotNotice = 2 * time.Minute

// metadata is the metadata of an instance, version 2 only.
type metadata struct {
	*backend
	sessions sessions
}

// tokenStore holds the tokens of an instance.
type tokenStore struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (b *tokenStore) issue(lifetime time.Duration) string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	token := base64.URLEncoding.EncodeToString(random[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until[token] = time.Now().Add(lifetime)
	return token
}

func (b *tokenStore) good(token string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until[token])
}

func (s metadata) handler(id, role string) http.Handler {
	given := &tokenStore{until: map[string]time.Time{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.advance()
		if strings.TrimSuffix(r.URL.Path, "/") == "/latest/api/token" {
			s.token(w, r, given)
			return
		}
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "", http.StatusMethodNotAllowed)
			return
		case !given.good(r.Header.Get("X-Aws-Ec2-Metadata-Token")):
			http.Error(w, "401 - Unauthorized", http.StatusUnauthorized)
			return
		}
		text, found := s.find(id, role, strings.TrimPrefix(r.URL.Path, "/latest/"))
		if !found {
			http.Error(w, "404 - Not Found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(text)) // the client has closed the connection
	})
}

// token answers a PUT with a token, unless the request came through a proxy.
func (s metadata) token(w http.ResponseWriter, r *http.Request, given *tokenStore) {
	const header = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	seconds, err := strconv.Atoi(r.Header.Get(header))
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "403 - Forbidden", http.StatusForbidden)
	case err != nil || seconds < 1 || seconds > 21600:
		http.Error(w, "400 - Bad Request", http.StatusBadRequest)
	default:
		w.Header().Set(header, strconv.Itoa(seconds))
		_, _ = w.Write([]byte(given.issue(time.Duration(seconds) * time.Second))) // the client has closed the connection
	}
}

// find returns the text at a path; a directory lists its names.
func (s metadata) find(id, role, at string) (string, bool) {
	at = strings.TrimSuffix(at, "/")
	all := s.all(id, role)
	if all == nil {
		return "", false
	}
	if path.Dir(at) == "meta-data/iam/security-credentials" && path.Base(at) == role && role != "" {
		return s.credentials(id, role)
	}
	if text, there := all[at]; there {
		return text, true
	}
	var names []string
	for name := range all {
		rest, below := strings.CutPrefix(name, at+"/")
		if !below {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		if deeper {
			first += "/"
		}
		names = append(names, first)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "\n"), len(names) > 0
}

// all returns the metadata of an instance by path; nil if the instance does not exist.
func (s metadata) all(id, role string) map[string]string {
	var out map[string]string
	s.store.Read(func(st *state) {
		i := st.Instances[id]
		if i == nil || i.State == terminated {
			return
		}
		region := s.config.Region
		identity, _ := json.MarshalIndent(map[string]any{ // made of texts only
			"accountId": s.config.Account, "architecture": i.Architecture, "availabilityZone": i.Zone, "imageId": i.Image,
			"instanceId": i.ID, "instanceType": i.Type,
			"pendingTime": i.Launched.Format(time.RFC3339), "privateIp": i.Address, "region": region, "version": "2017-09-30",
		}, "", "  ")
		out = map[string]string{
			"meta-data/ami-id": i.Image, "meta-data/instance-id": i.ID, "meta-data/instance-type": i.Type, "meta-data/local-ipv4": i.Address,
			"meta-data/local-hostname": dnsName(i), "meta-data/hostname": dnsName(i), "meta-data/mac": macOf(i.ID), "meta-data/reservation-id": i.Reservation,
			"meta-data/placement/availability-zone": i.Zone, "meta-data/placement/region": region, "meta-data/services/domain": "amazonaws.com",
			"meta-data/services/partition": "aws", "dynamic/instance-identity/document": string(identity), "meta-data/instance-life-cycle": "on-demand",
		}
		if i.Spot {
			out["meta-data/instance-life-cycle"] = "spot"
		}
		if role != "" {
			out["meta-data/iam/security-credentials/"+role] = ""
			out["meta-data/iam/info"] = `{"Code":"Success","InstanceProfileArn":"arn:aws:iam::` + s.config.Account + `:instance-profile/` + role + `"}`
		}
		if data, err := base64.StdEncoding.DecodeString(i.Data.Get("UserData")); err == nil && len(data) > 0 {
			out["user-data"] = string(data)
		}
		for _, e := range st.Events {
			if e.Kind == "spot.end" && e.Target == id {
				when := s.stamp().Add(e.At - s.time.now()).Format(time.RFC3339)
				out["meta-data/spot/instance-action"], out["meta-data/spot/termination-time"] = `{"action":"terminate","time":"`+when+`"}`, when
			}
		}
	})
	return out
}

// macOf is the address of an instance's network interface.
func macOf(id string) string {
	digits := hex.EncodeToString([]byte(id[len(id)-5:]))
	return "02:" + digits[:2] + ":" + digits[2:4] + ":" + digits[4:6] + ":" + digits[6:8] + ":" + digits[8:10]
}

// credentials are a session of the instance's role.
func (s metadata) credentials(id, role string) (string, bool) {
	var made given
	err := s.store.Write(func(st *state) error {
		made = s.sessions.issue(st, role, id, time.Hour)
		return nil
	})
	if err != nil {
		return "", false
	}
	text, err := json.MarshalIndent(map[string]string{"Code": "Success", "LastUpdated": time.Now().UTC().Format(time.RFC3339), "Type": "AWS-HMAC",
		"AccessKeyId": made.key, "SecretAccessKey": made.Secret, "Token": made.Token, "Expiration": made.Expires.Format(time.RFC3339)}, "", "  ")
	return string(text), err == nil
}
