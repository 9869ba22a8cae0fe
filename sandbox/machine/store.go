package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// record is the stored state of a machine. The record holds the recipe's customData, a secret: only the owner may
// read the file.
type record struct {
	Spec fleet.Spec `json:"spec"`
	// On: the machine has power.
	On    bool `json:"on"`
	Boots int  `json:"boots"`
	Hung  bool `json:"hung,omitempty"`
	// Node of the last boot; empty if the boot registered no Node.
	Node string `json:"node,omitempty"`
	// Further are the further disks.
	Further []fleet.Further `json:"further,omitempty"`
	// Address on the nodes' network.
	Address uint32 `json:"address"`
}

// fileName makes a file's name of any ID: its last words, for people, and a hash of it all. The case of
// an ID means nothing.
func fileName(id string) string {
	id = fold(id)
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, id)
	readable = strings.TrimLeft(readable[max(0, len(readable)-48):], "-.")
	sum := sha256.Sum256([]byte(id))
	return readable + "-" + hex.EncodeToString(sum[:5])
}

func (f *Fleet) recordPath(id string) string {
	return filepath.Join(f.config.Dir, "machines", fileName(id)+".json")
}

// save keeps a machine's record, whole or not at all.
func (f *Fleet) save(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := f.recordPath(r.Spec.ID)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (f *Fleet) forget(m *machine) error {
	for _, path := range []string{f.recordPath(m.specification().ID), f.consolePath(m.specification().ID)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// resume reads the records of an earlier fleet and boots the machines that were on.
func (f *Fleet) resume() error {
	paths, err := filepath.Glob(filepath.Join(f.config.Dir, "machines", "*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("machine record %s is not readable, remove it to start without that machine: %w", path, err)
		}
		m := newMachine(f, r)
		if r.On { // nothing comes between it and its boot, and no reader finds it off
			m.power = fleet.Starting
			m.order <- struct{}{}
		}
		f.mu.Lock()
		f.machines[fold(r.Spec.ID)] = m
		f.mu.Unlock()
		f.nextIP.Store(max(f.nextIP.Load(), r.Address))
		if !r.On {
			continue
		}
		lost := func() {
			if r.Node == "" {
				return
			}
			if err := f.kubelets.MarkLost(f.ctx, r.Node); err != nil {
				f.config.Log.Warn("lost node not marked", "node", r.Node, "error", err)
			}
		}
		if !r.Spec.Light {
			// Mark the Node as lost, so that readers do not take the Node of the last boot for the Node of this boot.
			lost()
		}
		f.spawn(func() {
			if r.Spec.Light {
				lost()
			}
			defer func() { <-m.order }()
			if err := m.switchOn(f.ctx); err != nil && f.ctx.Err() == nil {
				f.config.Log.Error("machine not resumed", "machine", r.Spec.ID, "error", err)
			}
		})
	}
	return nil
}
