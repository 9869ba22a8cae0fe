package generalize

import (
	"fmt"
	"regexp"
	"strings"
)

// hardwareKeys are the options of crypttab(5) by which hardware has the key of a disk.
var hardwareKeys = []string{"tpm2-device", "fido2-device", "pkcs11-uri"}

// keyDevice matches a key, or a header, on a device of its own.
var keyDevice = regexp.MustCompile(`:((?:UUID|LABEL|PARTUUID|PARTLABEL)=\S+|/dev/\S+)$`)

// keyOfHardware returns the first line of crypttab with a disk that the boot needs, and that only the donor's hardware
// unlocks, a TPM, a token or a further disk; empty if there is none.
func keyOfHardware(content []byte) string {
	for number, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		options := parseOptions(fields[3])
		by, _ := options.last(hardwareKeys...)
		_, header := options.last("header")
		for _, at := range []string{fields[2], header} {
			if m := keyDevice.FindStringSubmatch(at); m != nil {
				by = m[1]
			}
		}
		if by != "" && !options.isOptional(false) {
			return fmt.Sprintf("unlocks /dev/mapper/%s by %s in line %d", fields[0], by, number+1)
		}
	}
	return ""
}
