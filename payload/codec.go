package payload

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// MaxSize is the largest text that a codec accepts and decodes, in bytes. It bounds what a compressed text can grow to.
const MaxSize = 64 << 20

// version is that of the envelope.
const version = 1

// compression is the only one there is.
const compression = "zstd"

// Options configure a codec.
type Options struct {
	// Keys encrypt and decrypt. Nil: nothing is encrypted, and encrypted texts cannot be read.
	Keys *Keys
	// Queue says what is done with the texts of a queue, for example with the codec of its entry in a document. Nil: they stay as they are, but
	// all texts can be decoded.
	Queue func(name string) policy.Codec
}

// Codec is a job.Codec. It is safe for concurrent use.
type Codec struct{ options Options }

var _ job.Codec = (*Codec)(nil)

// New makes a codec.
func New(o Options) *Codec { return &Codec{o} }

// envelope is an encoded text as a store keeps it.
type envelope struct {
	job.Seal
	Data []byte `json:"data"` // the nonce, the encrypted text and its tag; or the compressed text
}

// Encode encodes a text as the queue's codec says. It returns plain itself if there is nothing to do, and an error if the queue wants
// encryption and there is no key.
func (c *Codec) Encode(queue, bound string, plain []byte) ([]byte, error) {
	var how policy.Codec
	if c.options.Queue != nil {
		how = c.options.Queue(queue)
	}
	switch {
	case how.Encrypt && c.options.Keys == nil:
		return nil, fmt.Errorf("queue %s wants encryption, but there are no keys; "+
			"name their file with --payload-keys (payload_keys in the URL of a pipeline), or set payload.Options.Keys", queue)
	case len(plain) > MaxSize && how != (policy.Codec{}):
		return nil, fmt.Errorf("%d bytes, above the limit of %d", len(plain), MaxSize)
	}
	out := envelope{Seal: job.Seal{Version: version, Size: len(plain)}, Data: plain}
	if how.CompressAbove > 0 && len(plain) > how.CompressAbove {
		if short := encoder().EncodeAll(plain, make([]byte, 0, len(plain)/2)); len(short)*4/3 < len(plain) || how.Encrypt && len(short) < len(plain) {
			out.Compression, out.Data = compression, short
		}
	}
	if how.Encrypt {
		keys := c.options.Keys
		out.Key = keys.first
		aead := keys.aeads[out.Key]
		nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(out.Data)+aead.Overhead())
		_, _ = rand.Read(nonce) // it never fails
		out.Data = aead.Seal(nonce, nonce, out.Data, out.associated(bound))
	}
	if out.Key == "" && out.Compression == "" {
		return plain, nil
	}
	return json.Marshal(out)
}

// associated is what encryption authenticates beside the text.
func (e *envelope) associated(bound string) []byte {
	data, err := json.Marshal([]any{e.Version, e.Key, e.Compression, e.Size, bound})
	if err != nil {
		panic("payload: " + err.Error()) // it holds only numbers and strings
	}
	return data
}

// Decode returns the text of which Encode made sealed, for the same bound. Errors say why it cannot be read; one that wraps
// job.ErrNoKey means that the key is missing.
func (c *Codec) Decode(bound string, sealed []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(sealed, &e); err != nil {
		return nil, errors.New("the encoded text is damaged: it is not a valid envelope")
	}
	switch {
	case e.Version != version:
		return nil, fmt.Errorf("the envelope has version %d, this program reads version %d", e.Version, version)
	case e.Key == "" && e.Compression == "":
		return nil, errors.New("the encoded text is damaged: it is neither encrypted nor compressed")
	case e.Compression != "" && e.Compression != compression:
		return nil, fmt.Errorf("unknown compression %q", e.Compression)
	case e.Size < 0 || e.Size > MaxSize:
		return nil, fmt.Errorf("%d bytes, above the limit of %d", e.Size, MaxSize)
	}
	text := e.Data
	if e.Key != "" {
		opened, err := c.decrypt(&e, bound)
		if err != nil {
			return nil, err
		}
		text = opened
	}
	if e.Compression != "" {
		longer, err := decoder().DecodeAll(text, make([]byte, 0, min(e.Size, 1<<20)))
		if err != nil {
			return nil, errors.New("the encoded text is damaged: it cannot be decompressed")
		}
		text = longer
	}
	if len(text) != e.Size {
		return nil, fmt.Errorf("the encoded text is damaged: it has %d bytes instead of %d", len(text), e.Size)
	}
	return text, nil
}

func (c *Codec) decrypt(e *envelope, bound string) ([]byte, error) {
	if c.options.Keys == nil || c.options.Keys.aeads[e.Key] == nil {
		return nil, fmt.Errorf("it is %s: %w", e.Seal, job.ErrNoKey)
	}
	aead := c.options.Keys.aeads[e.Key]
	if len(e.Data) < aead.NonceSize() {
		return nil, errors.New("the encoded text is damaged: it is too short")
	}
	nonce, text := e.Data[:aead.NonceSize()], e.Data[aead.NonceSize():]
	opened, err := aead.Open(nil, nonce, text, e.associated(bound))
	if err != nil {
		return nil, fmt.Errorf("it does not decrypt with key %s: it was changed, belongs to another type of job, or the key is another one", e.Key)
	}
	return opened, nil
}

// encoder and decoder are shared: EncodeAll and DecodeAll are safe for concurrent use and keep no goroutines.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic("payload: " + err.Error()) // the options are constant
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxSize))
		if err != nil {
			panic("payload: " + err.Error()) // the options are constant
		}
		return d
	})
)
