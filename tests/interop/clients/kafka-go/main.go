// A member of a group that uses kafka-go; its lines are those of tests/live/member.py.
//
// It is what kafka-go's documentation makes of a ConsumerGroup: each generation has a Reader for
// each of its partitions. A Reader that has a group does the same, and tells nothing of it; with
// assignor=plain there is only such a Reader, and no lines but of its errors and commits.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const again = 200 * time.Millisecond

type member struct {
	options    map[string]string
	client     *kafka.Client
	mutex      sync.Mutex
	generation *kafka.Generation
}

func main() {
	m := &member{options: map[string]string{}}
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		m.options[name] = value
	}
	m.client = &kafka.Client{Addr: kafka.TCP(m.options["bootstrap"]), Timeout: 10 * time.Second}
	run := m.share
	if m.options["assignor"] == "plain" {
		run = m.read
	}
	if err := run(); err != nil {
		say("fatal", err.Error())
		os.Exit(1)
	}
}

func complain(format string, words ...interface{}) {
	say("error", fmt.Sprintf(format, words...))
}

// read is one Reader with a group.
func (m *member) read() error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{m.options["bootstrap"]},
		GroupID:           m.options["group"],
		Topic:             m.options["topic"],
		SessionTimeout:    m.milliseconds("session_ms"),
		HeartbeatInterval: m.milliseconds("heartbeat_ms"),
		RebalanceTimeout:  m.milliseconds("rebalance_ms"),
		MaxWait:           500 * time.Millisecond,
		ErrorLogger:       kafka.LoggerFunc(complain),
	})
	within, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for within.Err() == nil {
			if _, err := reader.FetchMessage(within); err != nil && within.Err() == nil {
				complain("%v", err)
				time.Sleep(again)
			}
		}
	}()
	for words := range commands() {
		if words[0] == "commit" {
			message := kafka.Message{Topic: m.options["topic"]}
			wanted, err := pairs(words[1:])
			if err != nil {
				return err
			}
			for partition, offset := range wanted {
				// It commits the offset behind the record's.
				message.Partition, message.Offset = partition, offset-1
				if err := reader.CommitMessages(within, message); err != nil {
					say("failed commit", err.Error())
				}
			}
			say("done commit")
		}
	}
	stop()
	err := reader.Close()
	say("done close")
	return err
}

// share is a ConsumerGroup.
func (m *member) share() error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                    m.options["group"],
		Brokers:               []string{m.options["bootstrap"]},
		Topics:                []string{m.options["topic"]},
		GroupBalancers:        []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		SessionTimeout:        m.milliseconds("session_ms"),
		HeartbeatInterval:     m.milliseconds("heartbeat_ms"),
		RebalanceTimeout:      m.milliseconds("rebalance_ms"),
		WatchPartitionChanges: true,
		StartOffset:           kafka.FirstOffset,
		JoinGroupBackoff:      again,
		ErrorLogger: kafka.LoggerFunc(func(format string, words ...interface{}) {
			fmt.Fprintf(os.Stderr, format+"\n", words...)
		}),
	})
	if err != nil {
		return err
	}
	within, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for within.Err() == nil {
			generation, err := group.Next(within)
			if err == nil {
				m.work(generation)
			} else if !errors.Is(err, context.Canceled) {
				complain("%v", err)
			}
		}
	}()
	for words := range commands() {
		if words[0] == "close" {
			break
		}
		if err := m.obey(words[0], words[1:]); err != nil {
			say("failed", words[0], err.Error())
		}
	}
	stop()
	<-ended
	err = group.Close()
	say("done close")
	return err
}

// work begins with a generation: a Reader for each partition, until it ends.
func (m *member) work(generation *kafka.Generation) {
	assigned := generation.Assignments[m.options["topic"]]
	sort.Slice(assigned, func(a, b int) bool { return assigned[a].ID < assigned[b].ID })
	words := make([]string, len(assigned))
	for at, each := range assigned {
		words[at] = strconv.Itoa(each.ID)
	}
	list := strings.Join(words, ",")
	m.mutex.Lock()
	m.generation = generation
	m.mutex.Unlock()
	say("assigned", list)
	generation.Start(func(within context.Context) {
		<-within.Done()
		m.mutex.Lock()
		m.generation = nil
		m.mutex.Unlock()
		say("revoked", list)
	})
	for _, each := range assigned {
		generation.Start(func(within context.Context) { m.consume(within, each) })
	}
}

func (m *member) consume(within context.Context, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{m.options["bootstrap"]},
		Topic:       m.options["topic"],
		Partition:   from.ID,
		MaxWait:     500 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(complain),
	})
	defer reader.Close()
	if err := reader.SetOffset(from.Offset); err != nil {
		complain("%v", err)
	}
	for within.Err() == nil {
		if _, err := reader.ReadMessage(within); err != nil && within.Err() == nil {
			complain("%v", err)
		}
	}
}

func (m *member) milliseconds(name string) time.Duration {
	number, err := strconv.Atoi(m.options[name])
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func (m *member) obey(command string, words []string) error {
	m.mutex.Lock()
	generation := m.generation
	m.mutex.Unlock()
	if generation == nil {
		return fmt.Errorf("it is in no generation")
	}
	topic := m.options["topic"]
	switch command {
	case "commit":
		wanted, err := pairs(words)
		if err == nil {
			err = generation.CommitOffsets(map[string]map[int]int64{topic: wanted})
		}
		if err == nil {
			say("done commit")
		}
		return err
	case "committed":
		offsets, err := m.committed(generation)
		return tell(command, offsets, err)
	case "positions":
		offsets := map[int]int64{}
		for _, each := range generation.Assignments[topic] {
			offsets[each.ID] = each.Offset
		}
		return tell(command, offsets, nil)
	}
	return fmt.Errorf("no such command")
}

func (m *member) committed(generation *kafka.Generation) (map[int]int64, error) {
	topic := m.options["topic"]
	asked := []int{}
	for _, each := range generation.Assignments[topic] {
		asked = append(asked, each.ID)
	}
	answer, err := m.client.OffsetFetch(context.Background(), &kafka.OffsetFetchRequest{
		GroupID: m.options["group"], Topics: map[string][]int{topic: asked},
	})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for _, each := range answer.Topics[topic] {
		if each.Error != nil {
			return nil, each.Error
		}
		if each.CommittedOffset >= 0 {
			offsets[each.Partition] = each.CommittedOffset
		}
	}
	return offsets, nil
}

func pairs(words []string) (map[int]int64, error) {
	found := map[int]int64{}
	for _, word := range words {
		partition, offset, _ := strings.Cut(word, "=")
		number, err := strconv.Atoi(partition)
		if err != nil {
			return nil, err
		}
		if found[number], err = strconv.ParseInt(offset, 10, 64); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// commands are the words of each line; the end of input is the end.
func commands() <-chan []string {
	lines := make(chan []string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			if scanner.Text() == "close" {
				return
			}
			lines <- strings.Fields(scanner.Text())
		}
	}()
	return lines
}

func tell(command string, offsets map[int]int64, err error) error {
	if err != nil {
		return err
	}
	words := []string{"done", command}
	for partition, offset := range offsets {
		words = append(words, fmt.Sprintf("%d=%d", partition, offset))
	}
	say(words...)
	return nil
}

var saying sync.Mutex

func say(words ...string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.Join(words, " "))
}
