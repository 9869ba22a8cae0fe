// Package sandboxdir is the directory of a sandbox: its lock, the facts that stay between starts (names, secrets, ports),
// and the files for clients. The package starts nothing.
package sandboxdir

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Identity stays the same between starts, and holds secrets.
type Identity struct {
	// Cloud to simulate.
	Cloud pool.Cloud `json:"cloud"`
	// ClusterAPI has Cluster API build the nodes.
	ClusterAPI bool `json:"clusterAPI,omitempty"`
	// Karpenter builds the nodes.
	Karpenter bool `json:"karpenter,omitempty"`
	// AWS is the account of a sandbox on AWS.
	AWS Account `json:"aws,omitzero"`

	TenantID       string `json:"tenantID"`
	SubscriptionID string `json:"subscriptionID"`
	ResourceGroup  string `json:"resourceGroup"`
	Location       string `json:"location"`
	ClientID       string `json:"clientID"`
	ClientSecret   string `json:"clientSecret"`
	// IdentityHeader opens the endpoint of managed identities.
	IdentityHeader string `json:"identityHeader"`
	// SystemIdentity and UserIdentity are the client IDs of the managed identities.
	SystemIdentity string `json:"systemIdentity"`
	UserIdentity   string `json:"userIdentity"`
	// The ports of the API server, the simulated cloud and the endpoint of managed identities. 0 until the first
	// start has found free ports.
	APIPort      int `json:"apiPort"`
	CloudPort    int `json:"cloudPort"`
	IdentityPort int `json:"identityPort"`
	// Pools as described at their creation.
	Pools []pool.Spec `json:"pools"`
}

// Account is an account of AWS, with a user with all rights.
type Account struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	KeyID  string `json:"keyID"`
	Secret string `json:"secret"`
}

// Directory is a directory locked by this process.
type Directory struct {
	Dir string
	Identity
	// Fresh: the directory was new.
	Fresh bool
	lock  *os.File
}

const factsFile = "sandbox.json"

// RecordDir is the subdirectory with the logs of each start, for `kamino-sandbox check`.
const RecordDir = "record"

// InUseError reports that another process runs a sandbox in the directory.
type InUseError struct {
	Dir string
	PID string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("a sandbox already runs in %s (process %s): use it, stop it with `kamino-sandbox down --dir %s`, or choose another --dir",
		e.Dir, e.PID, e.Dir)
}

// Open locks a directory, and reads or creates its facts. A new sandbox is on the given cloud, by default Azure; another cloud
// is refused. Open returns an *InUseError if another process holds the lock.
func Open(dir string, cloud pool.Cloud) (*Directory, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Directory{Dir: dir}
	if err := s.acquire(); err != nil {
		return nil, err
	}
	if err := s.load(cloud); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Path of something in the directory.
func (s *Directory) Path(name ...string) string {
	return filepath.Join(append([]string{s.Dir}, name...)...)
}

// Close lets go of the directory.
func (s *Directory) Close() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// acquire holds a lock for as long as the process lives; the kernel drops it with the process, so a sandbox
// that was killed leaves nothing to clean up.
func (s *Directory) acquire() error {
	path := s.Path("lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		pid, _ := os.ReadFile(path)
		return &InUseError{Dir: s.Dir, PID: strings.TrimSpace(string(pid))}
	}
	if err := errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		return errors.Join(err, file.Close())
	}
	s.lock = file
	return nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func (s *Directory) load(cloud pool.Cloud) error {
	raw, err := os.ReadFile(s.Path(factsFile))
	if errors.Is(err, fs.ErrNotExist) {
		s.Identity, s.Fresh = invent(cloud), true
		return s.Save()
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &s.Identity); err != nil {
		return fmt.Errorf("%s is damaged, use another directory or delete the damaged one: %w", s.Path(factsFile), err)
	}
	if s.Cloud == "" {
		s.Cloud = pool.Azure // older sandboxes have no cloud in their facts
	}
	if cloud != "" && s.Cloud != cloud {
		return fmt.Errorf("the sandbox in %s is on %s, want %s: use another --dir", s.Dir, s.Cloud, cloud)
	}
	return nil
}

// Save keeps the facts for the next start.
func (s *Directory) Save() error {
	raw, err := json.MarshalIndent(s.Identity, "", "  ")
	if err != nil {
		return err
	}
	return s.write(factsFile, string(raw)+"\n", 0o600)
}

// write replaces a file atomically.
func (s *Directory) write(name, content string, mode fs.FileMode) error {
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(content), mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func invent(cloud pool.Cloud) Identity {
	if cloud == "" {
		cloud = pool.Azure
	}
	f := Identity{
		Cloud:          cloud,
		TenantID:       uuid(),
		SubscriptionID: uuid(),
		ResourceGroup:  "kamino-sandbox",
		Location:       "westus2",
		ClientID:       uuid(),
		ClientSecret:   secret(),
		IdentityHeader: secret(),
		SystemIdentity: uuid(),
		UserIdentity:   uuid(),
	}
	if cloud == pool.AWS {
		f.AWS = Account{ID: "123456789012", Region: "eu-central-1", KeyID: "AKIA" + strings.ToUpper(secret()[:16]), Secret: secret()}
	}
	return f
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func secret() string {
	var b [20]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
