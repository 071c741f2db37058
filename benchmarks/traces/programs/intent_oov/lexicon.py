from collections import Counter


class Lexicon:
    def __init__(self, sentences, smallest=1):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.index = {"<pad>": 0}
        for word, n in counts.most_common():
            if n >= smallest:
                self.index[word] = len(self.index)

    def __len__(self):
        return len(self.index)

    def encode(self, sentence):
        return [self.index.get(word, len(self.index)) for word in sentence.split()]
