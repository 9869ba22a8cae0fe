package store

import (
	"bytes"
	"encoding/binary"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// A record of wtmp. Source: utmp(5).
const (
	wtmpRecord, wtmpUser = 384, 44
	runLevel, bootTime   = 1, 2
)

// stoppedUncleanly reports whether the machine once stopped without a shutdown, as far as its logs go back: journald renames a journal
// that was not closed, and wtmp lacks the shutdown between two boots. Source: systemd, sd-journal; systemd-update-utmp.service(8).
func stoppedUncleanly(t *tree.Tree) bool {
	if found, err := t.Glob("var/log/journal/*/*.journal~"); err == nil && len(found) > 0 {
		return true
	}
	wtmp, _ := t.Read("var/log/wtmp") // systems without it have journals
	isUp := false
	for ; len(wtmp) >= wtmpRecord; wtmp = wtmp[wtmpRecord:] {
		switch binary.NativeEndian.Uint16(wtmp) {
		case bootTime:
			if isUp {
				return true
			}
			isUp = true
		case runLevel:
			isUp = isUp && !bytes.HasPrefix(wtmp[wtmpUser:], []byte("shutdown\x00"))
		}
	}
	return false
}
