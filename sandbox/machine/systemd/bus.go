package systemd

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	managerInterface = "org.freedesktop.systemd1.Manager"
	managerPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	unitPathPrefix   = string(managerPath) + "/unit/"
)

// connection is one client on the private socket. There is no bus daemon: the peer is the manager.
type connection struct {
	manager *Manager
	socket  net.Conn

	write  sync.Mutex
	serial uint32
	// ready: the handshake is over; earlier signals would break the connection.
	ready bool
}

func (c *connection) serve() {
	reader := bufio.NewReader(c.socket)
	if err := c.authenticate(reader); err != nil {
		return
	}
	c.write.Lock()
	c.ready = true
	c.write.Unlock()
	for {
		message, err := dbus.DecodeMessage(reader)
		if err != nil {
			return
		}
		if message.Type == dbus.TypeMethodCall {
			c.answer(message)
		}
	}
}

// authenticate speaks the server's side of the handshake of the D-Bus specification, with the EXTERNAL
// mechanism only: the socket lies in a directory that belongs to the sandbox's user.
func (c *connection) authenticate(reader *bufio.Reader) error {
	if nul, err := reader.ReadByte(); err != nil || nul != 0 {
		return errors.New("a D-Bus client begins with a nul byte")
	}
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return err
		}
		fields := strings.Fields(line)
		reply := `ERROR "not understood"`
		switch {
		case len(fields) == 0:
		case fields[0] == "BEGIN":
			return nil
		case fields[0] == "AUTH" && len(fields) > 1 && fields[1] == "EXTERNAL":
			reply = "OK " + hex.EncodeToString([]byte("kamino-sandbox!!"))
			if len(fields) == 2 {
				reply = "DATA"
			}
		case fields[0] == "AUTH":
			reply = "REJECTED EXTERNAL"
		case fields[0] == "DATA":
			reply = "OK " + hex.EncodeToString([]byte("kamino-sandbox!!"))
		}
		if _, err := fmt.Fprintf(c.socket, "%s\r\n", reply); err != nil {
			return err
		}
	}
}

// call is a method call, taken apart.
type call struct {
	path      dbus.ObjectPath
	method    string
	arguments []any
}

func (c *connection) answer(message *dbus.Message) {
	header := func(field dbus.HeaderField) string {
		text, _ := message.Headers[field].Value().(string)
		return text
	}
	path, _ := message.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	body, after, err := c.manager.dispatch(call{
		path:      path,
		method:    header(dbus.FieldInterface) + "." + header(dbus.FieldMember),
		arguments: message.Body,
	})
	if message.Flags&dbus.FlagNoReplyExpected == 0 {
		c.reply(message.Serial(), body, err)
	}
	if after != nil {
		after()
	}
}

func (c *connection) reply(serial uint32, body []any, failure *dbus.Error) {
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(serial),
	}, Body: body}
	if failure != nil {
		reply.Type, reply.Body = dbus.TypeError, failure.Body
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(failure.Name)
	}
	c.send(reply)
}

func (c *connection) signal(member string, body ...any) {
	c.send(&dbus.Message{Type: dbus.TypeSignal, Flags: dbus.FlagNoReplyExpected, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath:      dbus.MakeVariant(managerPath),
		dbus.FieldInterface: dbus.MakeVariant(managerInterface),
		dbus.FieldMember:    dbus.MakeVariant(member),
	}, Body: body})
}

// send writes a message. The reader detects a closed connection.
func (c *connection) send(message *dbus.Message) {
	if len(message.Body) > 0 {
		message.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(message.Body...))
	}
	var wire bytes.Buffer
	if err := message.EncodeTo(&wire, binary.LittleEndian); err != nil {
		return
	}
	c.write.Lock()
	defer c.write.Unlock()
	if !c.ready {
		return
	}
	c.serial++
	// The library numbers only its own connections' messages. The number is the header's second word.
	binary.LittleEndian.PutUint32(wire.Bytes()[8:], c.serial)
	_, _ = c.socket.Write(wire.Bytes())
}
